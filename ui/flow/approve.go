package flow

import (
	"context"
	"fmt"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/kubeconfig"
)

// approveOwn approves the request that ref names with the credential of another
// kubeconfig file. The request in the cluster must be the one that was filed:
// what is approved is what this program made, not what stands under its name.
func (e *Env) approveOwn(ctx context.Context, file string, ref csr.Ref, filed []byte) error {
	client, err := e.clientOf(ctx, kubeconfig.Rules{Explicit: file}, "")
	if err != nil {
		return fmt.Errorf("approve: %w", err)
	}
	obj, err := client.Get(ctx, ref.Name)
	if err != nil {
		return fmt.Errorf("approve: %w", err)
	}
	if obj.UID != ref.UID || string(obj.Spec.Request) != string(filed) {
		return hsm.WithHint(fmt.Errorf("request %s is not the one that was filed; it was not approved", ref.Name),
			"look at it with `kubehsm csr show` before anybody approves it")
	}
	if csr.StateOf(obj).State != csr.Pending {
		return nil // decided already; the wait tells how
	}
	_, err = client.Approve(ctx, obj, csr.Decision{Message: "approved together with the enrolment"})
	return err
}
