package csr

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"time"
)

// maxAnswer bounds what is read of an answer that is not the API machinery's, in bytes.
const maxAnswer = 4 << 20

func readJSON(r io.Reader, to any) error {
	return json.NewDecoder(io.LimitReader(r, maxAnswer)).Decode(to)
}

// managerFlags are what the controller manager's command line says of signing.
type managerFlags struct {
	signs    bool
	duration time.Duration // --cluster-signing-duration, 0 if not given
	evidence string
}

// managerFlags reads the controller manager's pod where it runs as one (kubeadm
// and its like) and may be seen.
func (c *Client) managerFlags(ctx context.Context) (managerFlags, bool) {
	ctx, cancel := context.WithTimeout(ctx, forecastTimeout)
	defer cancel()
	stream, err := c.certificates.Get().AbsPath("/api/v1/namespaces/kube-system/pods").
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
