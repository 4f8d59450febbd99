package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/csr/revocation"
	apiserver "github.com/kubehsm/kubehsm/hsm/shared/cluster"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/shell"
	"github.com/kubehsm/kubehsm/plugin/agent/renewing"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
	"github.com/kubehsm/kubehsm/ui/flow/session"
	"github.com/kubehsm/kubehsm/ui/present"
)

// maxSkew is the difference of clocks that certificates bear: requests are
// backdated by five minutes.
const maxSkew = 2 * time.Minute

// clusters looks at what is enrolled: the certificates and, if asked, the API
// servers.
func clusters(ctx context.Context, o *Options) []Check {
	store := enrollment.NewStore(o.Env.Dirs)
	all, err := o.enrollments()
	c := Check{ID: "enrollments", Group: GroupClusters, Title: "Enrollments"}
	checks := []Check{c.ok(present.Count(len(all), "enrollment"))}
	switch {
	case err != nil:
		checks[0] = c.with(Failed, err.Error(), "What cannot be read cannot be used.",
			fixOr(err, "enroll again with `kubehsm enroll`"))
	case len(all) == 0:
		checks[0] = c.with(Note, "nothing is enrolled yet", "kubectl has no key on a token to use.", enrollAnew)
	}
	found := make([][]Check, len(all))
	answers := map[string]func() answer{} // several enrollments may be of one API server
	var wg sync.WaitGroup
	for i, e := range all {
		found[i] = []Check{certificate(o.Env.Dirs, store, e, time.Now())}
		if e.Cluster.InsecureSkipTLSVerify {
			found[i] = append(found[i], unverified(e))
		}
		found[i] = append(found[i], signedRecord(e))
		if !o.Online {
			continue
		}
		// All servers are asked at once: one that is out of reach takes as long as all examinations may.
		asked, of := answers[fmt.Sprint(e.Cluster)], e.Cluster
		if asked == nil {
			asked = sync.OnceValue(func() answer { return answerOf(ctx, of) })
			answers[fmt.Sprint(e.Cluster)] = asked
		}
		wg.Go(func() {
			found[i] = append(found[i], server(e, asked()))
			if c, told := revocable(e, asked()); told {
				found[i] = append(found[i], c)
			}
		})
	}
	wg.Wait()
	return append(checks, slices.Concat(found...)...)
}

// signedRecord looks at whether the key of an enrollment has signed its record.
func signedRecord(e enrollment.Enrollment) Check {
	c := Check{ID: "record/" + e.Name, Group: GroupClusters, Title: "Record of " + e.Name}
	now := session.Consent{Enrollment: e}
	now.Version, now.Problem = e.Version()
	words := present.ConsentSigned(now).Words
	if now.Problem != nil {
		return c.with(Failed, words, "Somebody may have changed where it leads, or what needs your consent.",
			"kubehsm consent show "+shell.Quote(e.Name)+", then: "+present.ConsentCommand(now))
	}
	return c.ok(words)
}

func certificate(dirs home.Dirs, store enrollment.Store, e enrollment.Enrollment, now time.Time) Check {
	c := Check{ID: "certificate/" + e.Name, Group: GroupClusters, Title: "Certificate for " + e.Name}
	chain, err := store.Certificate(e)
	if err != nil {
		return c.with(Failed, err.Error(), "Without it the cluster does not know you.", fixOr(err, e.Command()))
	}
	leaf := chain[0]
	left := leaf.NotAfter.Sub(now)
	until := "until " + leaf.NotAfter.Local().Format("2006-01-02 15:04 MST")
	switch {
	case now.Before(leaf.NotBefore):
		return c.with(Failed, "not good before "+leaf.NotBefore.Local().Format("2006-01-02 15:04 MST"),
			"The API server refuses it, or this machine's clock is slow.", "set this machine's clock")
	case left <= 0:
		return c.with(Failed, "expired on "+leaf.NotAfter.Local().Format("2006-01-02 15:04 MST"),
			"The API server refuses it: 401 Unauthorized.", e.Anew())
	}
	if due, failure := renewing.Due(store, e, leaf, now, renewing.Off(dirs)); due {
		found := "expires soon: good " + until
		if failure != "" {
			found += "; the agent could not renew it: " + failure
		}
		return c.with(Warning, found,
			"After that the API server refuses it, and a new one must be approved.", "kubehsm certificate renew "+e.Name)
	}
	return c.ok(fmt.Sprintf("good %s, for %s", until, e.User))
}

// unverified warns of a server that is taken for whatever answers.
func unverified(e enrollment.Enrollment) Check {
	c := Check{ID: "unverified/" + e.Name, Group: GroupClusters, Title: "Identity of " + e.Host()}
	return c.with(Warning, "its certificate is not verified (insecure-skip-tls-verify)",
		"Whoever is in between reads what you send, secrets too, and answers in the cluster's place.",
		fmt.Sprintf("put the cluster's authority into its context as certificate-authority-data, then `%s`",
			e.Restart(e.Key)))
}

// enrollAnew leads through an enrollment: without the terminal UI it wants a user.
const enrollAnew = "kubehsm enroll --tui"

// answer is what an API server said, or err.
type answer struct {
	sent time.Time
	took time.Duration
	at   time.Time // time by the server's clock; zero if the server does not tell
	// minor is Kubernetes' minor version; 0 if the server does not tell nobody in particular.
	minor int
	err   error
}

// answerOf asks an API server for its version, as nobody in particular.
func answerOf(ctx context.Context, c apiserver.Cluster) answer {
	transport := cluster.Transport(c, patience)
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(c.Server, "/")+"/version", nil)
	if err != nil {
		return answer{err: err}
	}
	client := &http.Client{Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	sent := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	a := answer{sent: sent, took: time.Since(sent)}
	if at, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		a.at = at
	}
	var v struct{ Minor string }
	if json.NewDecoder(io.LimitReader(resp.Body, 1<<16)).Decode(&v) == nil {
		a.minor, _ = strconv.Atoi(strings.TrimSuffix(v.Minor, "+")) // some providers add a plus
	}
	return a
}

// revocable says whether the cluster can revoke certificates, if its API server tells its version.
func revocable(e enrollment.Enrollment, a answer) (c Check, told bool) {
	c = Check{
		ID:    "revocation/" + e.Name,
		Group: GroupClusters,
		Title: "Revocation in the cluster of " + e.Name + " (CIS 3.1.1)",
	}
	switch {
	case a.err != nil || a.minor == 0:
		return c, false
	case a.minor < revocation.MinMinor:
		return c.with(
			Note,
			fmt.Sprintf("not possible: it is Kubernetes 1.%d", a.minor),
			"A lost certificate writes until it ends.",
			fmt.Sprintf("keep lifetimes short, or upgrade: Kubernetes 1.%d can revoke certificates", revocation.MinMinor),
		), true
	}
	return c.ok("possible: a revoked certificate cannot write, but reads until it ends; `kubehsm revocation check` " +
		"proves it"), true
}

// server says how an API server answers, and compares the clocks.
func server(e enrollment.Enrollment, a answer) Check {
	c := Check{ID: "server/" + e.Name, Group: GroupClusters, Title: "API server of " + e.Name}
	if a.err != nil {
		return c.unreachable(a.err, e)
	}
	found := fmt.Sprintf("%s answers in %s", e.Host(), a.took.Round(time.Millisecond))
	if a.at.IsZero() {
		return c.ok(found)
	}
	if skew := a.sent.Add(a.took / 2).Sub(a.at).Round(time.Second); skew.Abs() > maxSkew {
		return c.with(Warning, fmt.Sprintf("%s; this machine's clock differs by %s", found, skew.Abs()),
			"Certificates seem expired, or not yet good, when clocks differ.", clockFix())
	}
	return c.ok(found)
}

// unreachable words why an API server did not answer, or was not believed.
func (c Check) unreachable(err error, e enrollment.Enrollment) Check {
	const why = "kubectl cannot reach it either."
	var authority x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var name x509.HostnameError
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.As(err, &authority):
		return c.with(Failed, err.Error(), "Somebody else answers there, or the cluster has a new authority (CA).",
			"ask whoever runs the cluster; if its CA has changed: kubehsm kubeconfig refresh "+e.Name)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return c.with(Failed, err.Error(), why,
			"compare this machine's clock; if it is right, the cluster's certificate has to be renewed")
	case errors.As(err, &name):
		return c.with(Failed, err.Error(), why, "the server's certificate is for other names: use one of them as the "+
			"cluster's address, with kubehsm kubeconfig refresh "+e.Name+" --server URL")
	case errors.As(err, &untrusted):
		return c.with(Failed, err.Error(), why,
			"check the cluster's certificate authority (CA) and the server's certificate with whoever runs the cluster")
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("%s does not answer", e.Host())
	}
	return c.with(Failed, err.Error(), why,
		"check that you are in the right network (VPN, proxy); "+
			"if the cluster's address has changed: kubehsm kubeconfig refresh "+e.Name+" --server URL")
}

// clockFix sets the clock on a system with systemd, and on Windows; the others have a setting.
func clockFix() string {
	const unix = "let the system keep the time: `sudo timedatectl set-ntp true`, or the date settings"
	return hinting.PerOS(
		unix,
		unix,
		"let the system keep the time: `w32tm /resync` as an administrator, or the date settings",
	)
}
