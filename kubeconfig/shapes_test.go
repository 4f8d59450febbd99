package kubeconfig

import "strings"

const kubectlStyle = `apiVersion: v1
clusters:
- cluster:
    server: https://one:6443
  name: one
contexts:
- context:
    cluster: one
    user: one
  name: one
current-context: one
kind: Config
preferences: {}
users:
- name: one
  user:
    token: sesame
`

// shapes are kubeconfigs as people have them; keep are lines that must survive
// as they are (an empty list means all).
var shapes = map[string]struct {
	text string
	keep []string
}{
	"missing list keys": {"apiVersion: v1\nkind: Config\n", nil},
	"empty":             {"", nil},
	"blank":             {"\n\n", nil},
	"comments only":     {"# my clusters\n# go here\n", nil},
	"document mark":     {"---\n", nil},
	"kubectl":           {kubectlStyle, without(kubectlStyle, "current-context: one")},
	"empty lists": {"apiVersion: v1\nclusters: []\ncontexts: []  # none yet\ncurrent-context: \"\"\nkind: Config\npreferences: {}\nusers: []\n",
		[]string{"kind: Config", "preferences: {}"}},
	"null lists":          {"apiVersion: v1\nclusters: null\ncontexts:\ncurrent-context:\nkind: Config\nusers: ~\n", []string{"kind: Config"}},
	"no final line":       {"clusters: []\nkind: Config\nusers:\n- name: x\n  user: {}", []string{"kind: Config", "- name: x", "  user: {}"}},
	"no final line, null": {"kind: Config\nusers:", []string{"kind: Config", "users:"}},
	"CRLF":                {strings.ReplaceAll(kubectlStyle, "\n", "\r\n"), without(strings.ReplaceAll(kubectlStyle, "\n", "\r\n"), "current-context: one\r")},
	"comments everywhere": {`# head
apiVersion: v1   # version
kind: Config

# the clusters
clusters:   # here
  # first
  - name: a       # name last year was b
    cluster:
      server: "https://a"   # quoted
      # inside

  # second
  - cluster: {server: 'https://b'}
    name: 'b'
# contexts
contexts:
  - name: a
    context: {cluster: a, user: a}   # flow
  # trailing

# users
users:
  - name: a
    user:
      token: >-
        abc
        # not a comment
current-context: "a"   # mine
# foot
`, nil},
	"anchors": {`apiVersion: v1
kind: Config
x-base: &base
  insecure-skip-tls-verify: true
clusters:
- name: &n one
  cluster:
    <<: *base
    server: https://one
- &two
  name: two
  cluster: {server: "https://two"}
contexts:
- name: one
  context: {cluster: *n, user: one}
users: []
current-context: *n
`, []string{"x-base: &base", "- name: &n one", "    <<: *base", "- &two"}},
	"unknown fields": {`apiVersion: v1
kind: Config
mine: {a: [1, 2.50, 0x10, ~], b: "x: y"}
extensions:
- name: minikube
  extension: {version: v1.30}
clusters:
- name: one
  cluster: {server: https://one, unknown: yes}
  extra: 1
contexts: [ ]
users: null
`, []string{`mine: {a: [1, 2.50, 0x10, ~], b: "x: y"}`, "  extension: {version: v1.30}", "  cluster: {server: https://one, unknown: yes}", "  extra: 1"}},
	"literal blocks":   {"users:\n- name: one\n  user:\n    token: |\n      clusters:\n      - name: x\n\n# c\nkind: Config\n", nil},
	"quoted keys":      {"\"apiVersion\": v1\n'clusters':\n- {name: one, cluster: {server: 'https://x'}}\n\"current-context\": 'one'\n", []string{"\"apiVersion\": v1", "'clusters':", "- {name: one, cluster: {server: 'https://x'}}"}},
	"dash on its line": {"clusters:\n-\n  name: one\n  cluster:\n    server: https://one\n-   name: two\n    cluster: {}\nkind: Config\n", nil},
	"indented root":    {"  apiVersion: v1\n  clusters:\n  - name: one\n    cluster: {server: 'https://x'}\n", nil},
	"second document":  {"apiVersion: v1\nclusters: []\n---\nclusters: [{name: hidden}]\n", []string{"apiVersion: v1", "---", "clusters: [{name: hidden}]"}},
	"document end":     {"apiVersion: v1\nusers:\n- name: x\n  user: {}\n...\n", nil},
	"not ASCII":        {"apiVersion: v1\n# Schlüssel – 鍵\nclusters:\n- name: \"prod-\\u00fc\"\n  cluster: {server: 'https://ü'}\n- name: 鍵\n  cluster: {server: 'https://x'}\n", nil},
	"byte order mark":  {"\ufeffapiVersion: v1\nclusters: []\nkind: Config\n", []string{"kind: Config"}},
	"numbers as names": {"clusters:\n- name: \"1\"\n  cluster: {server: 'https://1'}\ncontexts: []\n", nil},
}

// flowShapes are kubeconfigs that are read, and not edited.
var flowShapes = map[string]string{
	"flow lists in a block document": `apiVersion: v1
kind: Config
clusters: [{name: one, cluster: {server: "https://one"}}]   # flow
contexts: [
  {name: one, context: {cluster: one, user: one}},  # it's one
]
users: [{"name":"one","user":{"token":"a, b] }"}}]
current-context: one
`,
	"JSON on one line": `{"apiVersion":"v1","kind":"Config","clusters":[{"name":"one","cluster":{"server":"https://one"}}],"contexts":[],"users":null,"current-context":""}`,
	"JSON": `{
    "kind": "Config",
    "apiVersion": "v1",
    "clusters": [
        {
            "name": "one",
            "cluster": {
                "server": "https://one"
            }
        }
    ],
    "users": [],
    "preferences": {}
}
`,
	"empty JSON":          "{}\n",
	"YAML flow":           "{apiVersion: v1, kind: Config, clusters: [{name: one, cluster: {server: 'https://one'}}], 'users': [], }\n",
	"a comment in a list": "clusters: [ # none\n]\n",
}
