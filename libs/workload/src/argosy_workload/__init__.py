"""Workloads: traces, profiles, generated load, baselines, and reports of what became of them.

Owns: trace formats, workload profiles and generators, and what reports say; pictures come with the extra `plots`.
May import: argosy_core; neither adapters nor wire types.
Start: `traces.read_trace` (any file or bundled profile), `timing` (how fast to replay it), `manifests.Submitter`
(jobs as requests), `records.RunRecords` (what happened) and `report.build_report` with `rendering`.
"""
