package kubeconfig

import (
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/kubehsm/kubehsm/hsm/shared/regularfile"
)

// maxNamed bounds a file that a kubeconfig names, in bytes.
const maxNamed = 1 << 20

// ReadFile reads a file that a kubeconfig names: a regular one of at most 1 MiB.
func ReadFile(path string) ([]byte, error) { return regularfile.Read(path, maxNamed) }

// checkNamed looks at the files that a context names: client-go opens them
// whatever they are, also beside data that count in their place.
func checkNamed(config *api.Config, name string) error {
	c := config.Contexts[name]
	var named []string
	if cluster := config.Clusters[c.Cluster]; cluster != nil {
		named = append(named, cluster.CertificateAuthority)
	}
	if user := config.AuthInfos[c.AuthInfo]; user != nil {
		named = append(named, user.ClientCertificate, user.ClientKey, user.TokenFile)
	}
	for _, path := range named {
		if path == "" {
			continue
		}
		if _, err := ReadFile(path); err != nil {
			return err
		}
	}
	return nil
}
