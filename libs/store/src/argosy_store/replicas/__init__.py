"""What API replicas read and write: jobs, change requests, queues, clusters, grants, the audit."""
