"""What a program of the Python client does, with the current context of the
kubeconfig in KUBECONFIG."""
from kubernetes import client, config, watch
from kubernetes.client.rest import ApiException
from kubernetes.stream import stream

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

# Over a WebSocket, by a client that is not client-go's.
inside = stream(api.connect_get_namespaced_pod_exec, "p", "default", command=["sh", "-c", "echo inside; echo trouble >&2"],
                stdin=False, stdout=True, stderr=True, tty=False, _preload_content=False)
inside.run_forever(timeout=60)
print("exec", inside.read_stdout().strip(), inside.read_stderr().strip(), inside.returncode)

api.delete_namespaced_config_map("from-python", "default")
