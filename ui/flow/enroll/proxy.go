package enroll

import (
	"errors"
	"net/http"
	"net/url"
	"slices"

	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
)

// settleProxy writes down how the environment says that the cluster is reached:
// the agent's may be that of whichever program needed it first. A proxy with a
// password is left to the environment: no secret goes into the enrollment.
func settleProxy(c cluster.Cluster) (cluster.Cluster, error) {
	if c.ProxyURL != "" || c.Direct {
		return c, nil
	}
	server, err := url.Parse(c.Server)
	if err != nil {
		return c, err
	}
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: server})
	switch {
	case err != nil:
		return c, errors.New("the proxy that the environment names is not a URL") // the URL may contain a password
	case proxy == nil:
		c.Direct = true
	case proxy.User == nil && slices.Contains([]string{"http", "https", "socks5"}, proxy.Scheme):
		c.ProxyURL = proxy.String()
	}
	return c, nil
}
