package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/csr/revocation"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/desk"
)

// setsUsage says what SET can be.
func setsUsage() string { return "SET is " + strings.Join(desk.RBACSets(), ", ") + "; default all." }

func (a *app) rbacPrint() *cobra.Command {
	var o *format
	var authorizer, info bool
	c := a.command(&cobra.Command{
		Use:   "print [SET...]",
		Short: "Print the roles and policies as YAML",
		Long: "Prints roles, bindings and ValidatingAdmissionPolicies in YAML, to be read, changed and applied.\n\n" +
			setsUsage() + `

With --cluster-info, also prints the ConfigMap cluster-info of the cluster, which tickets
need, and everybody's right to read it. It fails if the cluster publishes one already.

With --revocation-authorizer, prints two files for the hosts of API servers that you
run yourself. They refuse the revoked certificates of the cluster everything, reading
too, but nothing to members of system:masters. Nothing keeps the files current: print
them again after each revocation.`,
		Example: `kubehsm rbac print
kubehsm rbac print ticket helpdesk | kubectl apply -f -
kubehsm rbac print ticket --cluster-info | kubectl apply -f -
kubehsm rbac print --revocation-authorizer`,
	}, func(c *cobra.Command, args []string) error {
		if authorizer {
			if len(args) > 0 {
				return ui.Usagef("--revocation-authorizer prints no sets of roles")
			}
			return a.printAuthorizer(c.Context(), o)
		}
		text, err := desk.RBACManifest(args...)
		if err != nil {
			return &ui.UsageError{Err: err}
		}
		if info {
			env, err := a.env()
			if err != nil {
				return err
			}
			more, err := desk.ClusterInfo(c.Context(), env, a.context)
			if err != nil {
				return err
			}
			text += "---\n" + more
		}
		doc := struct {
			Manifest string `json:"manifest"`
		}{text}
		return a.emit(o, doc, func(w *words) { w.block(strings.TrimSuffix(text, "\n")) })
	})
	c.Flags().BoolVar(&authorizer, "revocation-authorizer", false,
		"print an AuthorizationConfiguration that refuses revoked certificates reading too")
	c.Flags().BoolVar(&info, "cluster-info", false, "also print the cluster's cluster-info, which tickets need")
	c.MarkFlagsMutuallyExclusive("cluster-info", "revocation-authorizer")
	o = output(c)
	return c
}

// authorizerUse says where the files go. It is a comment in YAML.
const authorizerUse = `# Put this file on the host of each API server, as /etc/kubernetes/kubehsm-authorization.yaml,
# and start it with --authorization-config=/etc/kubernetes/kubehsm-authorization.yaml instead of
# --authorization-mode. Keep authorizers of your own after the kubehsm-revoked ones.
#   kubeadm  ClusterConfiguration: apiServer.extraArgs authorization-config, and both files as
#            apiServer.extraVolumes; kubeadm leaves --authorization-mode out then
#   k3s      --kube-apiserver-arg=authorization-config=FILE, since v1.32.4, v1.31.8 and v1.30.12
#   Talos    cluster.apiServer.authorizationConfig takes the list below in this order, since 1.9;
#            the second file comes by machine.files and cluster.apiServer.extraVolumes
# The API server reads the file again when it changes. Nothing keeps it current: print it again
# after each revocation.
`

// printAuthorizer prints the files that stop revoked certificates from reading.
func (a *app) printAuthorizer(ctx context.Context, o *format) error {
	env, err := a.env()
	if err != nil {
		return err
	}
	list, err := desk.NewStopping(env).List(ctx, a.context)
	if err == nil {
		err = list.Err()
	}
	if err != nil {
		return err
	}
	doc := struct {
		Authorization string `json:"authorization"`
		Kubeconfig    string `json:"kubeconfig"`
	}{authorizerUse + list.Authorizer(), revocation.AuthorizerKubeconfig}
	return a.emit(o, doc, func(w *words) {
		w.block(doc.Authorization + "---\n# The second file, " + revocation.AuthorizerKubeconfigFile + ":\n" +
			strings.TrimSuffix(doc.Kubeconfig, "\n"))
	})
}
