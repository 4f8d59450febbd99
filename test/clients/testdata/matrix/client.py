"""A program of the Python client that does what it is told on its standard input,
a line at a time, and answers each line by one. OTHER names a second context."""
import os
import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from kubernetes import client, config, watch
from kubernetes.client.rest import ApiException
from kubernetes.stream import portforward, stream

printing = threading.Lock()


def say(*words):
    with printing:
        print(*(" ".join(str(w).split()) for w in words), flush=True)


def words(error):
    return error.body or error.reason if isinstance(error, ApiException) else f"{type(error).__name__}: {error}"


api = client.CoreV1Api(config.new_client_from_config())
other = client.CoreV1Api(config.new_client_from_config(context=os.environ["OTHER"])) if os.environ.get("OTHER") else None


def listing(a=api):
    return len(a.list_namespaced_config_map("default").items)


def watching():
    try:
        for event in watch.Watch().stream(api.list_namespaced_config_map, "default"):
            say("event", event["object"].metadata.name)
    except Exception as e:
        say("ended", words(e))


def execute(word):
    # The client's stream takes the place of the API client's own way of sending.
    own = client.CoreV1Api(config.new_client_from_config())
    return stream(own.connect_get_namespaced_pod_exec, "p", "default", command=["echo", word], stdout=True, stdin=False,
                  stderr=True, tty=False).strip()


def forward(port):
    own = client.CoreV1Api(config.new_client_from_config())
    pf = portforward(own.connect_get_namespaced_pod_portforward, "p", "default", ports=port)
    s = pf.socket(int(port))
    s.setblocking(True)
    s.sendall(b"through\n")
    return s.recv(100).decode().strip()


def burst(n, *apis):
    with ThreadPoolExecutor(n) as pool:
        return len(list(pool.map(lambda i: listing(apis[i % len(apis)]), range(n))))


def do(verb, arg):
    if verb == "list":
        return listing()
    if verb == "create":
        return api.create_namespaced_config_map("default", client.V1ConfigMap(metadata=client.V1ObjectMeta(name=arg))).metadata.name
    if verb == "watch":
        threading.Thread(target=watching, daemon=True).start()
        return ""
    if verb == "exec":
        return execute(arg)
    if verb == "forward":
        return forward(arg)
    if verb == "burst":
        return burst(int(arg), api)
    if verb == "both":
        return burst(int(arg), api, other)
    raise ValueError(verb)


for line in sys.stdin:
    verb, _, arg = line.strip().partition(" ")
    try:
        say("ok", do(verb, arg))
    except Exception as e:
        say("failed", words(e))
os._exit(0)
