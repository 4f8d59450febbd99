// What a program of the JavaScript client does, with the current context of the
// kubeconfig in KUBECONFIG. Its argument is the client's package.
import { PassThrough } from "node:stream";
const k8s = await import(process.argv[2]);

const config = new k8s.KubeConfig();
config.loadFromDefault();
const api = config.makeApiClient(k8s.CoreV1Api);
const namespace = "default", name = "from-javascript";

const body = { metadata: { name }, data: { a: "b" } };
console.log("created", (await api.createNamespacedConfigMap({ namespace, body })).metadata.name);
const all = await api.listNamespacedConfigMap({ namespace });
console.log("listed", all.items.filter((c) => c.metadata.name === name).length);

const objects = k8s.KubernetesObjectApi.makeApiClient(config);
const applied = await objects.patch(
  { apiVersion: "v1", kind: "ConfigMap", metadata: { name, namespace }, data: { a: "c" } },
  undefined, undefined, "test", true, k8s.PatchStrategy.ServerSideApply);
console.log("applied", applied.data.a);

await new Promise((done, fail) => {
  let seen = false;
  const watch = new k8s.Watch(config);
  const started = watch.watch(`/api/v1/namespaces/${namespace}/configmaps`, { timeoutSeconds: 60 }, async (phase, object) => {
    if (!seen && object.metadata?.name === name) {
      seen = true;
      console.log("watched", object.metadata.name);
      (await started).abort();
    }
  }, (error) => (seen ? done() : fail(error ?? new Error("the watch ended"))));
  started.catch(fail);
});

try {
  await api.listNode();
} catch (e) {
  console.log("forbidden", e.code);
}

// Over a WebSocket.
const out = new PassThrough();
let inside = "";
out.on("data", (chunk) => (inside += chunk));
const status = await new Promise((done, fail) => {
  new k8s.Exec(config).exec(namespace, "p", "main", ["echo", "inside"], out, null, null, false, done).catch(fail);
});
console.log("exec", inside.trim(), status.status);

await api.deleteNamespacedConfigMap({ namespace, name });
