// A program of the JavaScript client that does what it is told on its standard
// input, a line at a time, and answers each line by one. Its argument is the
// client's package; OTHER names a second context.
import { createServer, connect } from "node:net";
import { createInterface } from "node:readline";
import { PassThrough } from "node:stream";
const k8s = await import(process.argv[2]);

const namespace = "default";
const config = new k8s.KubeConfig();
config.loadFromDefault();
const api = config.makeApiClient(k8s.CoreV1Api);
let other;
if (process.env.OTHER) {
  const c = new k8s.KubeConfig();
  c.loadFromDefault();
  c.setCurrentContext(process.env.OTHER);
  other = c.makeApiClient(k8s.CoreV1Api);
}

const say = (...words) => process.stdout.write(words.map((w) => String(w).trim().replace(/\s+/g, " ")).join(" ") + "\n");
const causes = (e) => [e?.message ?? e?.error?.message ?? String(e), ...(e?.cause ? causes(e.cause) : [])];
const words = (e) => (e?.body ? JSON.stringify(e.body) : causes(e).join(": "));
const list = async (a = api) => (await a.listNamespacedConfigMap({ namespace })).items.length;

// watch is the client's informer, which lists, watches, and begins again when told so.
function watch() {
  const informer = k8s.makeInformer(config, `/api/v1/namespaces/${namespace}/configmaps`,
    () => api.listNamespacedConfigMap({ namespace }));
  informer.on("add", (object) => say("event", object.metadata.name));
  informer.on("error", (e) => say("ended", words(e)));
  return informer.start();
}

function execute(word) {
  const out = new PassThrough();
  let inside = "";
  out.on("data", (chunk) => (inside += chunk));
  return new Promise((done, fail) => {
    new k8s.Exec(config).exec(namespace, "p", "main", ["echo", word], out, null, null, false, () => done(inside)).catch(fail);
  });
}

function forward(port) {
  const forwarder = new k8s.PortForward(config);
  return new Promise((done, fail) => {
    const server = createServer((s) => forwarder.portForward(namespace, "p", [Number(port)], s, null, s).catch(fail));
    server.listen(0, "127.0.0.1", () => {
      const s = connect(server.address().port, "127.0.0.1", () => s.write("through\n"));
      s.on("data", (data) => { s.destroy(); server.close(); done(data.toString()); });
      s.on("error", fail);
    });
  });
}

const burst = async (n, ...apis) => (await Promise.all(Array.from({ length: n }, (_, i) => list(apis[i % apis.length])))).length;

const verbs = {
  list: () => list(),
  create: async (name) => (await api.createNamespacedConfigMap({ namespace, body: { metadata: { name } } })).metadata.name,
  watch: async () => { await watch(); return ""; },
  exec: execute,
  forward,
  burst: (n) => burst(Number(n), api),
  both: (n) => burst(Number(n), api, other),
};

for await (const line of createInterface({ input: process.stdin })) {
  const [verb, arg] = line.split(" ");
  try {
    say("ok", await verbs[verb](arg));
  } catch (e) {
    say("failed", words(e));
  }
}
process.exit(0);
