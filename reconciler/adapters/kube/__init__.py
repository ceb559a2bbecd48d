"""A region's Kubernetes: the cluster port on its API server."""

from reconciler.adapters.kube.access import Access, from_kubeconfig, in_cluster
from reconciler.adapters.kube.cluster import KubeCluster, Settings

__all__ = ["Access", "KubeCluster", "Settings", "from_kubeconfig", "in_cluster"]
