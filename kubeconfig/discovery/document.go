package discovery

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"reflect"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/kubeconfig"
)

// maxDocument bounds a discovery document and a file that one names, in bytes.
const maxDocument = 1 << 20

// parseDocument reads a kubeconfig that says where one cluster is. The cluster
// has no name, as in cluster-info, or is that of the current context. What a
// document has no business saying is refused: see [ErrDocument] and
// [ErrCredentials]. dir is where files named by it are looked up; "" allows
// none.
func parseDocument(raw []byte, dir string) (cluster.Cluster, error) {
	config, err := clientcmd.Load(raw)
	if err != nil {
		return cluster.Cluster{}, fmt.Errorf("%w: not a kubeconfig: %w", ErrDocument, err)
	}
	for name, user := range config.AuthInfos {
		if hasCredential(user) {
			return cluster.Cluster{}, hint.Withf(fmt.Errorf("%w: the user %q", ErrCredentials, name),
				"a discovery document only says where the cluster is: take the users out; whoever has seen the file has the "+
					"credential")
		}
	}
	only, err := onlyCluster(config)
	if err != nil {
		return cluster.Cluster{}, err
	}
	return readCluster(only, dir)
}

// hasCredential reports whether user says anything at all: besides secrets that
// would be commands to run and names to take on.
func hasCredential(user *api.AuthInfo) bool {
	if user == nil {
		return false
	}
	bare := *user
	bare.LocationOfOrigin, bare.Extensions = "", nil
	if len(bare.ImpersonateUserExtra) == 0 {
		bare.ImpersonateUserExtra = nil
	}
	return !reflect.DeepEqual(bare, api.AuthInfo{})
}

func onlyCluster(config *api.Config) (*api.Cluster, error) {
	const form = "a discovery document has one cluster, without a name or named by the current context"
	switch len(config.Clusters) {
	case 0:
		return nil, hint.Withf(fmt.Errorf("%w: it names no cluster", ErrDocument), form)
	case 1:
	default:
		return nil, hint.Withf(fmt.Errorf("%w: it names %d clusters", ErrDocument, len(config.Clusters)), form)
	}
	for name, only := range config.Clusters {
		current := config.Contexts[config.CurrentContext]
		switch {
		case only == nil:
		case name == "":
			return only, nil
		case current == nil:
			return nil, hint.Withf(fmt.Errorf("%w: the cluster %q is in no current context", ErrDocument, name), form)
		case current.Cluster != name:
			return nil, hint.Withf(fmt.Errorf("%w: the current context %q is for another cluster than %q", ErrDocument,
				config.CurrentContext, name), form)
		default:
			return only, nil
		}
	}
	return nil, hint.Withf(fmt.Errorf("%w: its cluster is empty", ErrDocument), form)
}

func readCluster(from *api.Cluster, dir string) (cluster.Cluster, error) {
	if from.InsecureSkipTLSVerify {
		return cluster.Cluster{}, hint.Withf(fmt.Errorf("%w: it turns the verification of the server off", ErrDocument),
			"replace insecure-skip-tls-verify by the cluster's certificate-authority-data")
	}
	server, err := parseServer(from.Server)
	if err != nil {
		return cluster.Cluster{}, fmt.Errorf("%w: server: %w", ErrDocument, err)
	}
	info := cluster.Cluster{Server: server.String(), TLSServerName: from.TLSServerName, ProxyURL: from.ProxyURL}
	if err := checkProxy(info.ProxyURL); err != nil {
		return cluster.Cluster{}, err
	}
	pem := from.CertificateAuthorityData
	if len(pem) == 0 && from.CertificateAuthority != "" {
		if pem, err = authorityFile(from.CertificateAuthority, dir); err != nil {
			return cluster.Cluster{}, err
		}
	}
	if len(pem) > 0 {
		certs, err := parseCAs(pem)
		if err != nil {
			return cluster.Cluster{}, err
		}
		info.CAData = bundle(certs)
	}
	return info, nil
}

// authorityFile reads the certificate-authority that a document on disk names.
func authorityFile(path, dir string) ([]byte, error) {
	if dir == "" {
		return nil, hint.Withf(fmt.Errorf("%w: it names a file of this computer, %q", ErrDocument, path),
			"put the certificates themselves into certificate-authority-data: kubectl config view --flatten")
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	pem, err := kubeconfig.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w: certificate-authority: %w", ErrDocument, err)
	}
	return pem, nil
}

// openFile opens path for reading, unless it is a folder.
func openFile(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a folder", path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// checkProxy takes what [http.Transport] takes, without a password.
func checkProxy(text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "":
		return fmt.Errorf("%w: proxy-url is not a URL", ErrDocument)
	case u.User != nil:
		return fmt.Errorf("%w: a user in proxy-url", ErrCredentials)
	case u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "socks5":
		return fmt.Errorf("%w: proxy-url has the scheme %q", ErrDocument, u.Scheme)
	}
	return nil
}
