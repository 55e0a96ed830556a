// Command quickstart makes a queue, submits ten jobs, watches them until all have ended and tells how.
//
// It exits with 0 if all succeeded, with 1 if some did not, and with 2 if the server could not be used.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	apiv1 "argosy.dev/stubs/argosy/api/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

const (
	jobCount     = 10
	callTimeout  = 30 * time.Second
	maxPause     = 2 * time.Second
	maxAttempts  = 20 // in a row without an answer, about half a minute
	manifestText = `{
  "apiVersion": "v1",
  "kind": "Pod",
  "metadata": {"annotations": {"argosy.dev/simulated-run-time": "1s-2s"}},
  "spec": {
    "restartPolicy": "Never",
    "securityContext": {"runAsNonRoot": true, "runAsUser": 65534, "seccompProfile": {"type": "RuntimeDefault"}},
    "containers": [{
      "name": "main",
      "image": "busybox:1.36",
      "command": ["sleep", "1"],
      "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
      "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}
    }]
  }
}`
)

func main() {
	log.SetFlags(0)
	succeeded, err := run(context.Background(), environment("ARGOSY_SERVER", "127.0.0.1:50051"),
		environment("ARGOSY_QUEUE", "quick-start"), fmt.Sprintf("go-%d", time.Now().UnixNano()))
	switch {
	case err != nil:
		log.Print("error: ", err)
		os.Exit(2)
	case !succeeded:
		os.Exit(1)
	}
}

func run(ctx context.Context, server, queue, jobSet string) (succeeded bool, err error) {
	connection, err := grpc.NewClient(server, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return false, err
	}
	defer connection.Close()

	if err := createQueue(ctx, apiv1.NewQueueServiceClient(connection), queue); err != nil {
		return false, err
	}
	if err := submitJobs(ctx, apiv1.NewJobServiceClient(connection), queue, jobSet); err != nil {
		return false, err
	}
	counts, err := watchJobSet(ctx, apiv1.NewEventServiceClient(connection), queue, jobSet)
	if err != nil {
		return false, err
	}
	fmt.Println(summary(counts))
	return counts["succeeded"] == jobCount, nil
}

// createQueue makes the queue unless there is one by its name.
func createQueue(ctx context.Context, queues apiv1.QueueServiceClient, name string) error {
	_, err := repeat(ctx, queues.CreateQueue, &apiv1.CreateQueueRequest{Queue: &apiv1.Queue{Name: name}})
	if err != nil && status.Code(err) != codes.AlreadyExists { // that is a queue with other settings: use it
		return fmt.Errorf("create queue %s: %w", name, err)
	}
	fmt.Println("queue", name)
	return nil
}

// submitJobs submits ten jobs of one spec. Their client ids make it safe to send the request again.
func submitJobs(ctx context.Context, jobs apiv1.JobServiceClient, queue, jobSet string) error {
	request := &apiv1.SubmitJobsRequest{Specs: []*apiv1.JobSpec{{Manifests: []string{manifestText}}}}
	for i := range jobCount {
		request.Items = append(request.Items, &apiv1.JobItem{
			Spec:     0,
			Queue:    queue,
			JobSet:   jobSet,
			ClientId: fmt.Sprintf("%s-%d", jobSet, i),
		})
	}
	response, err := repeat(ctx, jobs.SubmitJobs, request)
	if err != nil {
		return fmt.Errorf("submit: %w", err)
	}
	fmt.Printf("submitted %d jobs to job set %s\n", len(response.GetJobIds()), jobSet)
	return nil
}

// watchJobSet prints every event once until all jobs have ended, and returns how many are in which state. A broken stream
// is opened again at the cursor of the last batch.
func watchJobSet(
	ctx context.Context, events apiv1.EventServiceClient, queue, jobSet string,
) (counts map[string]int64, err error) {
	request := &apiv1.WatchJobSetRequest{Queue: queue, JobSet: jobSet, UntilFinished: true}
	for failures := 0; ; {
		err := followStream(ctx, events, request, func(batch *apiv1.WatchJobSetResponse) {
			for _, event := range batch.GetEvents() {
				kind := strings.ToLower(strings.TrimPrefix(event.GetKind().String(), "JOB_EVENT_KIND_"))
				fmt.Printf("%4d %s %s %s\n", event.GetNumber(), event.GetJobId(), kind, event.GetNode())
			}
			request.Cursor = batch.GetCursor()
			counts = map[string]int64{}
			for _, count := range batch.GetStateCounts() {
				state := strings.ToLower(strings.TrimPrefix(count.GetState().String(), "JOB_STATE_"))
				counts[state] = count.GetJobCount()
			}
			failures = 0
		})
		if err == nil && isFinished(counts) {
			return counts, nil
		}
		if err != nil && !isPassing(err) {
			return nil, fmt.Errorf("watch: %w", err)
		}
		if failures++; failures == maxAttempts {
			return nil, fmt.Errorf("watch: the stream broke %d times in a row, last by: %w", failures, err)
		}
		log.Printf("stream ended (%v), resuming", err)
		if err := pause(ctx, failures); err != nil {
			return nil, err
		}
	}
}

// followStream gives each batch of one stream to take; nil is a stream that the server ended.
func followStream(
	ctx context.Context, events apiv1.EventServiceClient, request *apiv1.WatchJobSetRequest,
	take func(*apiv1.WatchJobSetResponse),
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := events.WatchJobSet(ctx, request)
	if err != nil {
		return err
	}
	for {
		batch, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		take(batch)
	}
}

// repeat makes a call again while the server cannot be reached; every mutation of Argosy may be repeated.
func repeat[Request, Response any](
	ctx context.Context,
	call func(context.Context, Request, ...grpc.CallOption) (Response, error),
	request Request,
) (Response, error) {
	for failures := 1; ; failures++ {
		attempt, cancel := context.WithTimeout(ctx, callTimeout)
		response, err := call(attempt, request)
		cancel()
		if err == nil || !isPassing(err) || failures == maxAttempts {
			return response, err
		}
		if err := pause(ctx, failures); err != nil {
			return response, err
		}
	}
}

// isPassing reports whether an error says nothing against trying again.
func isPassing(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return true
	default:
		return false
	}
}

func isFinished(counts map[string]int64) bool {
	return counts != nil && counts["queued"]+counts["leased"]+counts["running"] == 0
}

func pause(ctx context.Context, failures int) error {
	select {
	case <-time.After(min(50*time.Millisecond<<min(failures, 10), maxPause)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// summary reads as in "9 succeeded, 1 failed".
func summary(counts map[string]int64) string {
	var parts []string
	for _, state := range slices.Sorted(maps.Keys(counts)) {
		if counts[state] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[state], state))
		}
	}
	return strings.Join(parts, ", ")
}

func environment(name, fallback string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return fallback
}
