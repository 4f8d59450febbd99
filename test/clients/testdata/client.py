"""What a program of the Python client does, with the current context of the
kubeconfig in KUBECONFIG."""
from kubernetes import client, config, watch
from kubernetes.client.rest import ApiException

config.load_kube_config()
api = client.CoreV1Api()

body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="from-python"), data={"a": "b"})
print("created", api.create_namespaced_config_map("default", body).metadata.name)

watching = watch.Watch()
for event in watching.stream(api.list_namespaced_config_map, "default", timeout_seconds=60):
    if event["object"].metadata.name == "from-python":
        print("watched", event["object"].metadata.name)
        watching.stop()

try:
    api.list_node()
except ApiException as e:
    print("forbidden", e.status)

api.delete_namespaced_config_map("from-python", "default")
