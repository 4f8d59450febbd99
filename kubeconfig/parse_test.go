package kubeconfig

import (
	"reflect"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubehsm/kubehsm/kubeconfig/internal/tree"
)

// values are texts about which the quick parser could err.
var values = []string{
	"kind: Config\napiVersion: v1\n",
	"kind: Pod\napiVersion: v1\n",
	"kind: Config\napiVersion: v2\n",
	"kind: true\n",
	"apiVersion: 1\n",
	"kiNd: A\n",
	"APIVERSION: v2\n",
	"preferences: {}\nextensions: []\nclusters: {}\n",
	"preferences: []\n",
	"clusters: x\n",
	"current-context: ~\nusers: null\n",
	"current-context: a # b\n",
	"current-context: 'a' # b\n",
	"current-context: a#b\n",
	"current-context: 'it''s'\n",
	"current-context: \"a\\tb\"\n",
	"current-context: 1\n",
	"current-context: yes\n",
	"current-context: \"\"\n",
	"current-context: 'null'\n",
	"clusters:\n- name: a\n  cluster:\n    server: x\n- name: a\n  cluster:\n    server: y\n",
	"clusters:\n- name: a\n  cluster:\n    server: x\n    server: y\n",
	"clusters:\n- cluster:\n    Server: x\n    SERVER: y\n",
	"clusters:\n- name: a\n  cluster:\n    certificate-authority-data: QUJD\n" +
		"    insecure-skip-tls-verify: true\n    disable-compression: false\n",
	"clusters:\n- name: a\n  cluster:\n    certificate-authority-data: QUJ\n",
	"clusters:\n- name: a\n  cluster:\n    insecure-skip-tls-verify: x\n",
	"clusters:\n- name: a\n  cluster:\n    insecure-skip-tls-verify: True\n",
	"clusters:\n- name: a\n  cluster:\n    extensions:\n    - name: e\n      extension:\n" +
		"        z: <&>\n        a:\n        - - x\n          - y: []\n        b: {}\n        n:\n" +
		"        t: true\n    - name: f\n      extension: null\n    - name: g\n      extension: x\n" +
		"    - name: h\n",
	"users:\n- name: a\n  user:\n    exec:\n      apiVersion: client.authentication.k8s.io/v1beta1\n" +
		"      command: c\n      args: []\n      env:\n",
	"users:\n- name: a\n  user:\n    exec:\n      args:\n      - -x\n      - --y z\n      - a:b\n" +
		"      - 'c: d'\n      - ~\n      env:\n      - name: A\n        value: b=c\n      - {}\n",
	"users:\n- name: a\n  user:\n    as-user-extra:\n      a/b:\n      - c\n      d: []\n" +
		"    as-groups:\n    - 'g'\n    auth-provider:\n      name: p\n      config:\n        k: v\n",
	"users:\n- name: a\n  user:\n    auth-provider:\n      config: {}\n",
	"users:\n- name: a\n  user:\n    auth-provider:\n      config:\n        k: 1\n",
	"users:\n- name: a\n  user:\n    token: |\n      x\n",
	"users:\n- name: a\n  user:\n    token: 2001-01-01 10:10:10\n",
	"users:\n- name: a\n  user: null\n- user:\n- x\n-  name: b\n",
	"users:\n  - name: a\n    user:\n      token: <<\n",
	"users:\n- - name: a\n",
	"x:\n- - a\n  - b: c\n    d:\n    - e\n  - f\ny:\n  z: {}\n",
	"# nothing\n",
	"---\nkind: Config\n",
	"users:\n- name: a\r\n  user:\r\n    token: t\r\n",
}

// FuzzParse holds what is read from the scanner's tree against clientcmd: what the
// quick parser accepts, it understands alike.
func FuzzParse(f *testing.F) {
	seeds(f)
	for _, text := range values {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		quick, ok := quickly(data)
		if !ok {
			return
		}
		slow, err := clientcmd.Load(data)
		if err != nil {
			t.Fatalf("clientcmd says %v of\n%s", err, data)
		}
		if !reflect.DeepEqual(quick, slow) {
			t.Fatalf("quick %+v\nslow  %+v\n%s", quick, slow, data)
		}
	})
}

// TestQuick: what kubectl and kubehsm write is read the quick way.
func TestQuick(t *testing.T) {
	r, path := one(t, kubectlStyle)
	mustApply(t, mustPlan(t, r, entry("prod")), "")
	for name, data := range map[string]string{"kubectl's": kubectlStyle, "big": string(big(3, 8)), "ours": text(t, path),
		"CRLF": strings.ReplaceAll(kubectlStyle, "\n", "\r\n")} {
		if _, ok := quickly([]byte(data)); !ok {
			t.Errorf("%s is not:\n%s", name, data)
		}
	}
}

// TestManyKeys: keys of a mapping are compared with each other, which must not take long.
func TestManyKeys(t *testing.T) {
	if _, ok := quickly([]byte("kind: Config\nx:\n" + strings.Repeat("  a: b\n", 1<<20))); ok {
		t.Error("took a key twice")
	}
	var b strings.Builder
	for i := range tree.MaxKeys + 1 {
		b.WriteString("k" + strings.Repeat("x", i) + ": v\n")
	}
	if _, ok := quickly([]byte(b.String())); ok {
		t.Errorf("took more than %d keys", tree.MaxKeys)
	}
}
