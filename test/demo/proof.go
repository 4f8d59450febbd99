package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/kubehsm/kubehsm/hsm/hsmtest"
)

// prove shows, by what the API server, the token and kubectl's plugin say, that
// the key that signed in is in the token and the one that kubectl holds is not.
func prove(ctx context.Context, t *trial, soft *hsmtest.SoftHSM) error {
	heading("whose key was that?")
	token, err := openToken(soft)
	if err != nil {
		return err
	}
	defer token.close()
	credential, err := credentialID(ctx, t)
	if err != nil {
		return fmt.Errorf("what the API server verified: %w", err)
	}
	cert, id, err := token.certificate(func(c *x509.Certificate) bool {
		return fingerprint(c.Raw) == credential || credential == "" && c.Subject.CommonName == trialUser
	})
	if err != nil {
		return fmt.Errorf("certificate %s on the token: %w", credential, err)
	}
	if err := token.holds(cert, id); err != nil {
		return err
	}
	config, err := clientcmd.LoadFromFile(t.kubeconfig())
	if err != nil {
		return err
	}
	held, err := heldByKubectl(ctx, t, config)
	if err != nil {
		return fmt.Errorf("the credential that kubectl is given: %w", err)
	}
	leaf, err := x509.ParseCertificate(held.Certificate[0])
	if err != nil {
		return err
	}
	inToken, inKubectl := fingerprint(cert.RawSubjectPublicKeyInfo), fingerprint(leaf.RawSubjectPublicKeyInfo)
	if inToken == inKubectl {
		return errors.New("kubectl holds the token's key")
	}
	answer, err := tryDirectly(ctx, config, held)
	if err != nil {
		return fmt.Errorf("kubectl's key at the API server: %w", err)
	}
	if answer.code != http.StatusUnauthorized {
		return fmt.Errorf("the API server answers %s to the key that kubectl holds", answer.status)
	}
	verified := "certificate " + short(credential)
	if credential == "" {
		verified = "a certificate (which one, API servers before 1.32 do not tell)"
	}
	fmt.Printf("  the API server verified  %s, %s\n", verified, cert.Subject.CommonName)
	fmt.Printf("  its public key           %s\n", short(inToken))
	fmt.Printf("  the key in the token     %s  generated there, sensitive, not extractable\n", short(inToken))
	fmt.Printf("  the key kubectl holds    %s  another one, which only kubehsm's bridge on this machine takes\n",
		short(inKubectl))
	fmt.Printf("  that at the API server   %s\n", answer.status)
	return nil
}

func fingerprint(der []byte) string {
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}

func short(fingerprint string) string { return "SHA256:" + fingerprint[:16] + "…" }

// credentialID asks the API server, through kubectl, for the SHA-256 of the
// certificate that it authenticated the user by (KEP-4193's credential id): "" from
// one that does not tell.
func credentialID(ctx context.Context, t *trial) (string, error) {
	out, err := t.command(ctx, t.kubectl(), "--context", contextOut, "auth", "whoami", "-o", "json").output()
	if err != nil {
		return "", err
	}
	var review struct {
		Status struct {
			UserInfo struct {
				Extra map[string][]string `json:"extra"`
			} `json:"userInfo"`
		} `json:"status"`
	}
	if err := json.Unmarshal(out, &review); err != nil {
		return "", err
	}
	ids := review.Status.UserInfo.Extra["authentication.kubernetes.io/credential-id"]
	if len(ids) == 0 {
		return "", nil
	}
	for _, id := range ids {
		if hash, ok := strings.CutPrefix(id, "X509SHA256="); ok {
			return hash, nil
		}
	}
	return "", fmt.Errorf("no certificate among the credential ids %q", ids)
}

// heldByKubectl runs the plugin as kubectl does and returns the key pair that
// kubectl gets.
func heldByKubectl(ctx context.Context, t *trial, config *api.Config) (tls.Certificate, error) {
	entry := config.Contexts[contextOut]
	if entry == nil || config.AuthInfos[entry.AuthInfo] == nil || config.Clusters[entry.Cluster] == nil {
		return tls.Certificate{}, fmt.Errorf("context %s is not complete", contextOut)
	}
	plugin, cluster := config.AuthInfos[entry.AuthInfo].Exec, config.Clusters[entry.Cluster]
	if plugin == nil {
		return tls.Certificate{}, fmt.Errorf("user %s has no plugin", entry.AuthInfo)
	}
	info, err := execInfo(plugin.APIVersion, cluster)
	if err != nil {
		return tls.Certificate{}, err
	}
	cmd := t.command(ctx, plugin.Command, plugin.Args...)
	for _, v := range plugin.Env {
		cmd.Env = append(cmd.Env, v.Name+"="+v.Value)
	}
	cmd.Env = append(cmd.Env, "KUBERNETES_EXEC_INFO="+string(info))
	out, err := cmd.output()
	if err != nil {
		return tls.Certificate{}, err
	}
	var answer struct {
		Status struct{ ClientCertificateData, ClientKeyData string }
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair([]byte(answer.Status.ClientCertificateData), []byte(answer.Status.ClientKeyData))
}

// execInfo is what kubectl puts into KUBERNETES_EXEC_INFO (KEP-541).
func execInfo(version string, cluster *api.Cluster) ([]byte, error) {
	about := map[string]any{"server": cluster.Server, "certificate-authority-data": cluster.CertificateAuthorityData}
	if extension, ok := cluster.Extensions["client.authentication.k8s.io/exec"].(*runtime.Unknown); ok {
		about["config"] = json.RawMessage(extension.Raw)
	}
	return json.Marshal(map[string]any{
		"apiVersion": version, "kind": "ExecCredential",
		"spec": map[string]any{"interactive": false, "cluster": about},
	})
}

type httpAnswer struct {
	code   int
	status string
}

// tryDirectly offers pair to the API server itself, past the bridge.
func tryDirectly(ctx context.Context, config *api.Config, pair tls.Certificate) (httpAnswer, error) {
	cluster := config.Clusters[config.Contexts[contextIn].Cluster]
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(cluster.CertificateAuthorityData) {
		return httpAnswer{}, errors.New("the cluster's CA has no certificate")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: cluster.TLSServerName,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, cluster.Server+"/api/v1/namespaces", nil)
	if err != nil {
		return httpAnswer{}, err
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return httpAnswer{}, err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return httpAnswer{}, err
	}
	return httpAnswer{code: resp.StatusCode, status: resp.Status}, nil
}
