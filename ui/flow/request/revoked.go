package request

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/csr/revocation"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/plugin/expiry"
	"github.com/kubehsm/kubehsm/ui/flow/deeds"
)

// revokedCheck refuses what was revoked: a key or a certificate on the cluster's list, and,
// as the local record has it, a key, a certificate or a user whose access was taken away
// from here.
func (q Requests) revokedCheck(kubeContext string, accept []string) Check {
	return func(ctx context.Context, _ *csr.Client, v *View) error {
		listed, err := onList(v, func() (revocation.List, error) { return q.access.Revoked(ctx, kubeContext) })
		if err != nil {
			return err
		}
		v.Refuse(RiskRevoked, accept, listed...)
		past, err := deeds.NewLog(q.env).All()
		if err != nil || !slices.ContainsFunc(past, func(d deeds.Deed) bool { return d.Action == "revoke" }) {
			return err
		}
		cluster, err := q.access.Verified(ctx, kubeContext)
		if err != nil {
			return err
		}
		refusals, warnings := revoked(past, cluster.Server, v)
		v.Warnings = append(v.Warnings, warnings...)
		v.Refuse(RiskRevoked, accept, refusals...)
		return nil
	}
}

// onList says what of v is on the cluster's list of revoked certificates. What of the list cannot
// or may not be read is told with the rights that could not be looked up.
func onList(v *View, read func() (revocation.List, error)) (refusals []string, err error) {
	list, err := read()
	switch {
	case apierrors.IsForbidden(err):
		v.RightsUnknown = append(v.RightsUnknown, "which certificates are revoked: you may not read the list")
		return nil, nil
	case err != nil:
		return nil, err
	}
	for _, s := range list.Shards {
		if s.Err != nil {
			v.RightsUnknown = append(v.RightsUnknown, "whether it is revoked: "+s.Err.Error())
		}
	}
	certificate := ""
	if v.Object != nil {
		certificate = revocation.Used(v.Object.Spec.Extra)
	}
	return list.Objections(certificate, v.Fingerprint), nil
}

// revoked is what of v was revoked by the record. A user's revocation counts
// only in its own cluster, and for no request with a key, a certificate or a
// ticket that was given from here since: a lost key is lost everywhere. What was lifted
// from here since counts no more, the user once all of their certificates were lifted.
func revoked(past []deeds.Deed, server string, v *View) (refusals, warnings []string) {
	certificate := ""
	if v.Object != nil {
		certificate = revocation.Used(v.Object.Spec.Extra)
	}
	var user, key, asker *deeds.Deed // revocations that still count
	held := map[string]bool{}        // keys and certificates of the user, as approved from here
	lifted := map[string]bool{}      // certificates
	for i, d := range past {
		mine := d.Fingerprint != "" && d.Fingerprint == v.Fingerprint
		asks := d.Certificate != "" && d.Certificate == certificate
		switch d.Action {
		case "approve", "break-glass-approve":
			held[d.User+"\n"+d.Fingerprint], held[d.User+"\n"+d.Certificate] = d.Fingerprint != "", d.Certificate != ""
			if mine {
				key = nil
			}
			if mine || asks {
				user, asker = nil, nil
			}
		case "ticket":
			if d.Ticket != "" && d.Ticket == v.TicketID() && d.User == v.User {
				user = nil
			}
		case "lift":
			for _, c := range d.Certificates {
				lifted[c] = true
			}
			if slices.Contains(d.Keys, v.Fingerprint) {
				key = nil
			}
			if slices.Contains(d.Certificates, certificate) {
				asker = nil
			}
			if user != nil && user.Server == d.Server && len(user.Certificates) > 0 &&
				!slices.ContainsFunc(user.Certificates, func(c string) bool { return !lifted[c] }) {
				user = nil
			}
		case "revoke":
			for _, c := range d.Certificates {
				delete(lifted, c)
			}
			if slices.Contains(d.Keys, v.Fingerprint) || held[d.User+"\n"+v.Fingerprint] {
				key = &past[i]
			}
			if certificate != "" && (slices.Contains(d.Certificates, certificate) || held[d.User+"\n"+certificate]) {
				asker = &past[i]
			}
			if d.User == v.User || d.User == v.Requester {
				user = &past[i]
			}
		}
	}
	if key != nil {
		refusals = append(refusals,
			fmt.Sprintf("its key belonged to %q, and access for %[1]q was revoked from this computer on %s: whoever has the "+
				"lost token may have sent the request", key.User, expiry.Day(key.Time)))
	}
	if asker != nil {
		refusals = append(refusals,
			fmt.Sprintf("it was filed with a certificate of %q, and access for %[1]q was revoked from this computer on %s",
				asker.User, expiry.Day(asker.Time)))
	}
	if user == nil {
		return refusals, warnings
	}
	why := fmt.Sprintf("access for %q was revoked from this computer on %s", user.User, expiry.Day(user.Time))
	switch {
	case user.Server != server:
		warnings = append(warnings, why+", in the cluster "+user.Server)
	case v.TicketID() != "" && v.Created.Sub(user.Time) > ticket.MaxTTL: // every ticket of then is over
		warnings = append(warnings, why+"; the ticket was made later")
	default:
		refusals = append(refusals, why+": ask them why they need a certificate again")
	}
	return refusals, warnings
}
