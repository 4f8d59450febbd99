package tui

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/ui/flow/request"
)

func fakeRequest(user string, groups ...string) request.View {
	return request.View{
		Name: "kubehsm-" + user + "-7x2kp", UID: "uid-" + user, State: csr.Pending.String(), Requester: user, User: user, Groups: groups,
		SignerName: csr.ClientSigner, Usages: []string{"client auth"}, Expiration: "24h0m0s", Key: "ECDSA P-256",
		Fingerprint: "3b1f0c6de1c54cf5b9be9a3e6c1fb0a70d4a9e1da8a40f2f51f3c79a6d0c2e11",
		Words:       []string{"abandon", "ability", "able", "about", "above", "absent", "absorb", "abstract"},
		Created:     fakeNow().Add(-7 * time.Minute),
	}
}

// fakeRequests are what waits in the cluster.
func fakeRequests() []request.View {
	jane, mallory, old := fakeRequest("jane", "dev"), fakeRequest("mallory", "system:masters"), fakeRequest("田中", "ops")
	mallory.Created = fakeNow().Add(-30 * time.Second)
	mallory.Requester = "system:bootstrap:abcdef"
	mallory.RequesterKind = "the bootstrap token abcdef: whoever holds it; ask who that is"
	mallory.Warnings = []string{`"system:bootstrap:abcdef" asks for a certificate in the name of "mallory"`}
	old.State, old.Created = "issued", fakeNow().Add(-50*time.Hour)
	return []request.View{old, jane, mallory}
}

func (f *fakeBackend) WatchRequests(ctx context.Context, _ string, filter request.Filter) (iter.Seq2[request.Event, error], error) {
	f.mu.Lock()
	all, more := slices.Clone(f.requests), f.changes
	f.mu.Unlock()
	return func(yield func(request.Event, error) bool) {
		f.following.Add(1)
		defer f.following.Add(-1)
		for _, v := range all {
			if filter.Pending && v.State != csr.Pending.String() {
				continue
			}
			if !yield(request.Event{Type: "ADDED", Request: v}, nil) {
				return
			}
		}
		for {
			select {
			case e := <-more:
				if !yield(e, nil) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}, nil
}

// Requests tells of an unreachable cluster; that there is something the watch tells.
func (f *fakeBackend) Requests(context.Context, string, request.Filter) (iter.Seq2[request.View, error], error) {
	f.mu.Lock()
	err := f.requestsErr
	f.mu.Unlock()
	return func(yield func(request.View, error) bool) {
		if err != nil {
			yield(request.View{}, err)
		}
	}, nil
}

func (f *fakeBackend) OwnRequests(context.Context, string) ([]request.View, error) {
	return []request.View{fakeRequest("jane", "dev"), {Name: "gone-1", State: request.StateGone, User: "jane", Created: fakeNow().Add(-time.Hour)},
		{Name: "unfiled-1", State: request.StateUnfiled, User: "jane", Created: fakeNow().Add(-2 * time.Hour)}}, nil
}

func (f *fakeBackend) Request(ctx context.Context, _, name string, _ request.LookOptions) (request.View, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, v := range f.requests {
		if v.Name != name {
			continue
		}
		if v.User == "jane" {
			v.Attested, v.Attestation = true, "verified to Yubico PIV Root CA: generated on YubiKey 5C NFC 12345678, firmware 5.4.3, PIN once, touch cached"
			v.Rights = []string{"edit in namespace dev, by group dev"}
		} else {
			v.Warnings = append(v.Warnings, "the certificate allows everything in the cluster: its user or one of its groups is cluster-admin")
			v.Rights = []string{"cluster-admin everywhere, by group system:masters"}
			if v.Refusals = f.refusals; len(f.refusals) > 0 {
				v.Risks, v.Ticket = []string{request.RiskMismatch}, &ticket.Terms{User: "jane", Groups: []string{"dev"}}
			}
		}
		return v, ctx.Err()
	}
	return request.View{}, csr.ErrNotFound
}

func (f *fakeBackend) Decide(_ context.Context, _ string, seen request.View, o request.DecideOptions) (request.View, error) {
	err := f.did("decide %s approve=%v own=%v words=%q message=%q", seen.Name, o.Approve, o.Own, o.Words, o.Message)
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.requests {
		if f.requests[i].Name == seen.Name && err == nil {
			f.requests[i].State = map[bool]string{true: "approved", false: "denied"}[o.Approve]
			seen = f.requests[i]
		}
	}
	return seen, err
}

func (f *fakeBackend) ResumeRequest(_ context.Context, _, name string) (request.View, error) {
	return request.View{Name: name, State: csr.Pending.String()}, f.did("resume %s", name)
}

func (f *fakeBackend) CancelRequest(_ context.Context, _, name string) error {
	return f.did("cancel %s", name)
}

// manyRequests are as many as a busy cluster has.
func manyRequests(n int) []request.View {
	out := make([]request.View, n)
	for i := range out {
		out[i] = fakeRequest(fmt.Sprintf("user-%d", i), "dev")
		out[i].Created = fakeNow().Add(-time.Duration(i) * time.Second)
	}
	return out
}
