package flow

import (
	"context"
	"slices"
	"strings"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
)

// completeNames fills the placeholders in the names that o asks for and checks
// the names. The token is opened only if there is a placeholder.
func (n Enroller) completeNames(ctx context.Context, o *enrolling.Options) error {
	all := append(append([]string{o.User}, o.Groups...), o.AltNames.Flags()...)
	if slices.ContainsFunc(all, func(s string) bool { return strings.Contains(s, "{") }) {
		t := enrolling.NameTemplate{Context: o.Context}
		err := n.env.withToken(ctx, o.Token, func(token hsm.Token) (err error) {
			t.Token, err = token.Info(ctx)
			return err
		})
		if err == nil {
			o.User, err = t.Fill("user", o.User)
		}
		if err == nil {
			o.Groups, err = t.FillAll("group", o.Groups)
		}
		if err == nil {
			o.AltNames, err = t.FillNames(o.AltNames)
		}
		if err != nil {
			return err
		}
	}
	if err := o.AltNames.Into(&csr.RequestOptions{}); err != nil {
		return err
	}
	return (csr.Subject{User: o.User, Groups: o.Groups}).Validate(o.SignerName)
}
