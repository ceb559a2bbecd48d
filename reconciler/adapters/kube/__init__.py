"""A region's Kubernetes: the cluster port on its API server, and which of an agent's replicas acts there."""

from reconciler.adapters.kube.access import Access, from_kubeconfig, in_cluster
from reconciler.adapters.kube.cluster import KubeCluster, Settings
from reconciler.adapters.kube.leading import AgentReplica, Leadership
from reconciler.adapters.kube.watching import Times

__all__ = ["Access", "AgentReplica", "KubeCluster", "Leadership", "Settings", "Times", "from_kubeconfig", "in_cluster"]
