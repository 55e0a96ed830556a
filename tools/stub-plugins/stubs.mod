// The module that `make stubs-go` makes of the generated Go code; a program points at it with `replace`.
module argosy.dev/stubs

go 1.24

require (
	google.golang.org/grpc v1.76.0
	google.golang.org/protobuf v1.36.12
)
