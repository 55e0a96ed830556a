"""Run a fake kubelet."""

from argosy_testkit.fake_kubelet.process import main

main()
