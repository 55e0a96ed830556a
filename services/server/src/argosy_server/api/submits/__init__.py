"""From a submit request to one transaction: read, admitted, gathered, stored; or planned only."""
