package main

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/kubehsm/kubehsm/csr/revocation"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/test/poll"
)

// enrolled brings a person with a token of the roster in, and returns what they sign in with.
func (c *crowd) enrolled(p *person) (holder, string) {
	c.l.t.Helper()
	if err := c.file(p); err != nil {
		c.l.t.Fatal(err)
	}
	var chain string
	poll.Until(c.l.t, p.name+" has a certificate", func() bool {
		obj := c.l.stored().issued[p.name]
		if obj != nil {
			chain = string(obj.Status.Certificate)
		}
		return obj != nil
	})
	key, err := x509.MarshalPKCS8PrivateKey(p.key)
	if err != nil {
		c.l.t.Fatal(err)
	}
	config := api.NewConfig()
	config.Clusters["c"] = &api.Cluster{Server: c.l.c.Server(), CertificateAuthority: c.l.c.CAFile()}
	config.AuthInfos["u"] = &api.AuthInfo{ClientCertificateData: []byte(chain),
		ClientKeyData: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})}
	config.Contexts["x"], config.CurrentContext = &api.Context{Cluster: "c", AuthInfo: "u"}, "x"
	file := filepath.Join(c.l.t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		c.l.t.Fatal(err)
	}
	block, _ := pem.Decode([]byte(chain))
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		c.l.t.Fatal(err)
	}
	entry := revocation.EntryOf(cert)
	poll.Until(c.l.t, "the roster has it", func() bool {
		return slices.ContainsFunc(c.l.token(p).Status.Live(time.Now()), func(o clusterapi.TokenCertificate) bool {
			return o.Certificate == entry.Certificate && o.Key == entry.Key && o.NotAfter.Time.Equal(entry.NotAfter)
		})
	})
	rest, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		c.l.t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(rest)
	if err != nil {
		c.l.t.Fatal(err)
	}
	return holder{entry, client}, file
}

func (l *lab) token(p *person) (t clusterapi.HardwareToken) {
	l.t.Helper()
	l.read(&t, "hardwaretoken", fmt.Sprint(p.serial))
	return t
}

// read reads an object of our namespace. It leaves o alone if there is none.
func (l *lab) read(o any, kind, name string) {
	l.t.Helper()
	out := l.kubectl("-n", clusterapi.Namespace, "get", kind, name, "-ojson", "--ignore-not-found")
	if out == "" {
		return
	}
	if err := json.Unmarshal([]byte(out), o); err != nil {
		l.t.Fatal(err)
	}
}

// writers are dev, who may write ConfigMaps in the namespace default. With the role edit an admin would approve them.
const writers = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: writers, namespace: default}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [create]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: writers, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: writers}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: dev}, {apiGroup: rbac.authorization.k8s.io, kind: Group, name: everybody}]
`
