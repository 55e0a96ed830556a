"""Workloads: traces, profiles, generated load, baselines, and reports of what became of them.

Start with `traces.read_trace` (any file or bundled profile), `timing` (how fast to replay it), `manifests.Submitter`
(jobs as requests), `records.RunRecords` (what happened) and `report.build_report` with `rendering`.
"""
