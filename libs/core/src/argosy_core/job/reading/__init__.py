"""Reading what a submitter wrote: manifests become a class, a layout and a body, or a list of findings."""
