"""`argosy admin release-cluster`: what an installation leaves on a cluster that it goes from."""

from __future__ import annotations

import sys

import click

from argosy_cli.interrupts import run_to_end
from argosy_cli.options import output_options, settings_of
from argosy_cli.output import ask, print_value

__all__ = ["release_cluster"]


@click.command("release-cluster")
@click.option("--installation", default="argosy", show_default=True, help="Whose pods.")
@click.option(
    "--cluster-address",
    default="kubernetes",
    show_default=True,
    metavar="ADDRESS",
    help="kubernetes (default kubeconfig), kubernetes:PATH, kubernetes:PATH#CONTEXT or kubernetes:in-cluster.",
)
@click.option("--dry-run", is_flag=True, help="Only count.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output_options
@click.pass_context
def release_cluster(
    context: click.Context, *, installation: str, cluster_address: str, dry_run: bool, yes: bool
) -> None:
    """Take the finalizer off all pods of an installation that goes from a cluster.

    Stop its executor first and for good: it would call what goes then lost. Nothing is deleted; pods that were kept
    only until their end was stored go by themselves, and namespaces can be deleted again.
    """
    from argosy_kube import open_cluster
    from argosy_kube.kubernetes.cluster import KubernetesCluster

    settings = settings_of(context)
    cluster = open_cluster(cluster_address, installation=installation)
    if not isinstance(cluster, KubernetesCluster):
        raise click.UsageError("a simulated cluster has no finalizers; name one of Kubernetes", context)
    if not dry_run and not yes:
        if not sys.stdin.isatty():
            raise click.UsageError(f"this would let go of the pods of {installation}; confirm with -y", context)
        ask(f"let go of the pods of {installation}; is its executor stopped for good?")

    async def run() -> int:
        async with cluster:
            return await cluster.release_pods(dry_run=dry_run)

    count = run_to_end(run())
    if settings.is_table:
        click.echo(f"{count} pods of {installation} " + ("would be let go" if dry_run else "were let go"))
    else:
        print_value(settings, {"installation": installation, "podCount": count, "dryRun": dry_run})
