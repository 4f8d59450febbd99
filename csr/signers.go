package csr

import (
	"crypto"
	"crypto/rsa"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// documented is where the rules of Kubernetes's own signers are from.
const documented = "Kubernetes documentation, Certificate Signing Requests: Kubernetes signers"

// signerRule is what a signer of Kubernetes's own asks of a request.
type signerRule struct {
	// needs must be among the usages, may beside them.
	needs, may []certificatesv1.KeyUsage
	// subject says what is wrong with a subject, or "".
	subject func(Subject) string
}

// signerRules is the table of the signers that Kubernetes documents; of all
// others nothing is known.
func signerRules(name string) (signerRule, bool) {
	sign, encipher := certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment
	switch name {
	case certificatesv1.KubeAPIServerClientSignerName:
		return signerRule{
			needs: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
			may:   []certificatesv1.KeyUsage{sign, encipher},
			subject: func(s Subject) string {
				if slices.Contains(s.Groups, mastersGroup) {
					return "the group " + mastersGroup + " is refused at creation"
				}
				return ""
			},
		}, true
	case certificatesv1.KubeAPIServerClientKubeletSignerName:
		return signerRule{
			needs:   []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth, sign},
			may:     []certificatesv1.KeyUsage{encipher},
			subject: nodeSubject,
		}, true
	case certificatesv1.KubeletServingSignerName:
		return signerRule{
			needs:   []certificatesv1.KeyUsage{certificatesv1.UsageServerAuth, sign},
			may:     []certificatesv1.KeyUsage{encipher},
			subject: nodeSubject,
		}, true
	}
	return signerRule{}, false
}

func nodeSubject(s Subject) string {
	switch {
	case !slices.Equal(s.Groups, []string{"system:nodes"}):
		return "it signs for the group system:nodes alone"
	case !strings.HasPrefix(s.User, "system:node:"):
		return "it signs for users system:node:NAME alone"
	}
	return ""
}

// usageProblem says what the signer has against the usages, or "".
func (r signerRule) usageProblem(usages []certificatesv1.KeyUsage, key crypto.PublicKey) string {
	for _, u := range r.needs {
		if !slices.Contains(usages, u) {
			return fmt.Sprintf("it needs the usage %q", u)
		}
	}
	for _, u := range usages {
		if !slices.Contains(r.needs, u) && !slices.Contains(r.may, u) {
			return fmt.Sprintf("it does not sign for the usage %q", u)
		}
		if _, rsaKey := key.(*rsa.PublicKey); u == certificatesv1.UsageKeyEncipherment && key != nil && !rsaKey {
			return fmt.Sprintf("the usage %q makes no sense for a key of kind %s", u, KeyAlgorithm(key))
		}
	}
	return ""
}

// kindOfCluster is what a server's version and address say of who made it.
type kindOfCluster struct {
	name    string
	verdict Verdict
	reason  string
	// version is a part of gitVersion, host the end of the server's name: one
	// of them is the evidence.
	version, host string
}

// clusterKinds are those of whose signing something is known.
func clusterKinds() []kindOfCluster {
	eks := "it does not sign client certificates (Amazon EKS user guide, \"Secure workloads with Kubernetes " +
		"certificates\"): " +
		"an approved request would wait for ever"
	k3s := "its server runs the controller that signs client certificates"
	gke := "its signer signs client certificates (CIS Google Kubernetes Engine Benchmark, on client certificate " +
		"authentication)"
	return []kindOfCluster{
		{"Amazon EKS", Refuse, eks, "", ".eks.amazonaws.com"},
		{"Amazon EKS", Refuse, eks, "", ".eks.amazonaws.com.cn"},
		{"Amazon EKS", Refuse, eks, "-eks-", ""},
		{"k3s", OK, k3s, "+k3s", ""},
		{"RKE2", OK, k3s, "+rke2", ""},
		{"Google GKE", OK, gke, "-gke.", ""},
		{"Azure AKS", Unknown, "what its managed signer does is not known here", "", ".azmk8s.io"},
		{"OpenShift", Unknown, "what its signer does is not known here", "", ".openshiftapps.com"},
		{"DigitalOcean", Unknown, "what its managed signer does is not known here", "", ".k8s.ondigitalocean.com"},
	}
}

// kindOf recognizes a cluster by its version or its server's name; the evidence
// says by which.
func kindOf(version, host string) (k kindOfCluster, evidence string) {
	for _, k := range clusterKinds() {
		switch {
		case k.version != "" && strings.Contains(version, k.version) && !distro(version):
			return k, "the server's version is " + version
		case k.host != "" && strings.HasSuffix(strings.ToLower(host), k.host):
			return k, "the server's name is " + host
		}
	}
	return kindOfCluster{}, ""
}

// distro tells whether a version is that of an EKS Distro release, v1.29.1-eks-1-29-12:
// who runs one runs the controller manager too, and it may sign.
func distro(version string) bool {
	_, release, _ := strings.Cut(version, "-eks-")
	return strings.Count(release, "-") == 2
}
