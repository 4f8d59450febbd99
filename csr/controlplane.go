package csr

import (
	"context"
	"crypto/x509"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// ControlPlane tells what can be seen of what runs one cluster: its version, what its
// controller manager signs, and whose certificates its API server accepts. What the
// caller may not see is unknown, and no error.
type ControlPlane struct{ *api }

// managerFlags are what the controller manager's command line says of signing.
type managerFlags struct {
	signs    bool
	duration time.Duration // --cluster-signing-duration, 0 if not given
	evidence string
}

// managerFlags reads the controller manager's pod where it runs as one (kubeadm
// and its like) and may be seen.
func (p ControlPlane) managerFlags(ctx context.Context) (managerFlags, bool) {
	ctx, cancel := context.WithTimeout(ctx, forecastTimeout)
	defer cancel()
	stream, err := p.certificates.Get().AbsPath("/api/v1/namespaces/kube-system/pods").
		Param("labelSelector", "component=kube-controller-manager").Param("limit", "1").Stream(ctx)
	if err != nil {
		return managerFlags{}, false
	}
	defer stream.Close()
	var list struct {
		Items []struct {
			Metadata struct{ Name string }
			Spec     struct {
				Containers []struct{ Command, Args []string }
			}
		}
	}
	if readJSON(stream, &list) != nil || len(list.Items) == 0 {
		return managerFlags{}, false
	}
	f := managerFlags{evidence: "the flags of pod " + list.Items[0].Metadata.Name}
	for _, container := range list.Items[0].Spec.Containers {
		for _, arg := range append(container.Command, container.Args...) {
			name, value, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
			switch name {
			case "cluster-signing-key-file", "cluster-signing-kube-apiserver-client-key-file":
				f.signs = f.signs || value != ""
			case "cluster-signing-duration":
				f.duration, err = time.ParseDuration(value)
				if err != nil {
					f.duration = 0
				}
			}
		}
	}
	return f, true
}

// never is why the cluster signs no client certificate, "" if that is not known.
// A controller manager that can be seen is not Amazon's: EKS Anywhere has the
// version of EKS, and may sign.
func (p ControlPlane) never(signer, version string, managed bool) (why, evidence string) {
	k, evidence := kindOf(version, p.hostname())
	if signer != ClientSigner || k.verdict != Refuse || managed && k.host == "" {
		return "", ""
	}
	return k.name + ": " + k.reason, evidence
}

// SignsNever says why the cluster will not sign for a signer even what is
// approved; "" if it may. A server that cannot be asked is no reason.
func (p ControlPlane) SignsNever(ctx context.Context, signer string) string {
	version, _, err := p.version(ctx)
	if err != nil {
		return ""
	}
	why, evidence := p.never(signer, version, false)
	if why == "" {
		return ""
	}
	if _, managed := p.managerFlags(ctx); managed {
		if why, evidence = p.never(signer, version, true); why == "" {
			return ""
		}
	}
	return why + " (" + evidence + ")"
}

// version asks for /version, which everybody may, and takes the server's
// clock from the answer. The error is that of a server that cannot be reached;
// one that does not tell is no error.
func (p ControlPlane) version(ctx context.Context) (version string, date time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, forecastTimeout)
	defer cancel()
	url := p.certificates.Get().AbsPath("/version").URL().String()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", time.Time{}, err
	}
	resp, err := p.http.Do(req)
	if err != nil {
		return "", time.Time{}, apiError("ask for the version", p.host, err)
	}
	defer resp.Body.Close()
	if d, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		date = d
	}
	var v struct {
		GitVersion string `json:"gitVersion"`
	}
	if resp.StatusCode == http.StatusOK && readJSON(resp.Body, &v) == nil {
		version = v.GitVersion
	}
	return version, date, nil
}

// AcceptedRoots reads the authorities of client certificates where the API server
// publishes them; nil if they may not be read. The API server never takes one out
// before it expires.
func (p ControlPlane) AcceptedRoots(ctx context.Context) *x509.CertPool {
	ctx, cancel := context.WithTimeout(ctx, forecastTimeout)
	defer cancel()
	stream, err := p.certificates.Get().
		AbsPath("/api/v1/namespaces/kube-system/configmaps/" + authenticationMap).Stream(ctx)
	if err != nil {
		return nil
	}
	defer stream.Close()
	var object struct {
		Data map[string]string `json:"data"`
	}
	pool := x509.NewCertPool()
	if readJSON(stream, &object) != nil || !pool.AppendCertsFromPEM([]byte(object.Data["client-ca-file"])) {
		return nil
	}
	return pool
}

// hostname is the server's, without scheme and port.
func (p ControlPlane) hostname() string {
	if u, err := url.Parse(p.host); err == nil {
		return u.Hostname()
	}
	return ""
}
