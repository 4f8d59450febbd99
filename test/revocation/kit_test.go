package revocation

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/csr/revocation"
	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/poll"
)

func TestMain(m *testing.M) { os.Exit(controlplane.Main(m)) }

// api is revocation.API by client-go's dynamic client. before, if set, is called ahead of
// each write and may refuse it, as a crash would.
type api struct {
	client dynamic.Interface
	before func() error
}

func (a api) of(kind string) dynamic.ResourceInterface {
	return a.client.Resource(schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1",
		Resource: map[string]string{"ValidatingAdmissionPolicy": "validatingadmissionpolicies",
			"ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings"}[kind]})
}

func (a api) List(ctx context.Context, _, kind string) ([]revocation.Object, error) {
	list, err := a.of(kind).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var all []revocation.Object
	for _, i := range list.Items {
		all = append(all, i.Object)
	}
	return all, nil
}

func (a api) write(ctx context.Context, verb string, o revocation.Object) error {
	u := &unstructured.Unstructured{Object: o}
	if a.before != nil {
		if err := a.before(); err != nil {
			return err
		}
	}
	var err error
	if verb == "create" {
		_, err = a.of(u.GetKind()).Create(ctx, u, metav1.CreateOptions{})
	} else {
		_, err = a.of(u.GetKind()).Update(ctx, u, metav1.UpdateOptions{})
	}
	return err
}

func (a api) Create(ctx context.Context, o revocation.Object) error { return a.write(ctx, "create", o) }

func (a api) Replace(ctx context.Context, o revocation.Object) error {
	return a.write(ctx, "replace", o)
}

// configFrom reads a kubeconfig file.
func configFrom(t testing.TB, file string) *rest.Config {
	t.Helper()
	c, err := clientcmd.BuildConfigFromFlags("", file)
	must.OK(t, err)
	c.QPS = -1
	return c
}

func clientOf(t testing.TB, c *rest.Config) dynamic.Interface {
	t.Helper()
	d, err := dynamic.NewForConfig(c)
	must.OK(t, err)
	return d
}

// person is somebody with a client certificate.
type person struct {
	config *rest.Config
	file   string // kubeconfig
	entry  revocation.Entry
}

// someone has the cluster certify a user.
func someone(t testing.TB, c *controlplane.Cluster, user string, groups ...string) person {
	t.Helper()
	file := fmt.Sprintf("%s/%s.kubeconfig", t.TempDir(), strings.ReplaceAll(user, ":", "-"))
	must.OK(t, c.WriteKubeconfig(file, controlplane.ContextName, user, groups...))
	config := configFrom(t, file)
	block, _ := pem.Decode(config.CertData)
	cert, err := x509.ParseCertificate(block.Bytes)
	must.OK(t, err)
	e := revocation.EntryOf(cert)
	e.Reason, e.By, e.At = "lost in a train", "test-admin", time.Now()
	return person{config, file, e}
}

// ledger is the cluster's list, written by its admin.
func ledger(t testing.TB, c *controlplane.Cluster) revocation.Ledger {
	t.Helper()
	return revocation.Ledger{API: api{client: clientOf(t, configFrom(t, c.AdminKubeconfig()))}}
}

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// create makes a ConfigMap in the namespace default, in a dry run.
func create(ctx context.Context, config *rest.Config, name string) error {
	d, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	_, err = d.Resource(configMaps).Namespace("default").Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}}},
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// awaitInForce waits until the API server that config leads to enforces the shards.
func awaitInForce(t testing.TB, config *rest.Config, shards []revocation.Shard) {
	t.Helper()
	for _, s := range shards {
		poll.Until(t, s.Name+" is in force", func() bool {
			return revocation.InForce(create(t.Context(), config, s.ProbeName())) == s.Revision()
		})
	}
}

// refused tells whether err is the refusal of a revoked certificate.
func refused(err error) bool { return apierrors.IsForbidden(err) && revocation.IsRefusal(err) }

// requestFor is a manifest of a request for a client certificate.
func requestFor(t testing.TB, name string) string {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	text, err := csr.NewRequest(k, csr.Subject{User: name}, csr.RequestOptions{})
	must.OK(t, err)
	obj, err := csr.Spec{Name: name, Request: text}.Object()
	must.OK(t, err)
	b, err := json.Marshal(obj)
	must.OK(t, err)
	return string(b)
}
