package enrolling

import (
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
)

// Options say what to enroll, and what certificate to ask for. What is left open is
// filled from the record of an earlier run ([Options.FillFrom]) and with defaults
// ([Options.FillDefaults]). What else there is to know of an option stands in the
// table below, once.
type Options struct {
	// Name is the enrollment's name, and that of the context, cluster and user
	// entries written. Default: the source context's name with "-hsm".
	Name string `json:"name"`

	// Token names the token. Key names an existing key on it; if it is the zero
	// URI a key is generated with Generate.
	Token    hsm.URI             `json:"token"`
	Key      hsm.URI             `json:"key,omitzero"`
	Generate hsm.GenerateOptions `json:"generate"`

	// Context is the kubeconfig context whose cluster is joined and whose
	// credential files the request. Default: the current context.
	Context string `json:"context"`
	// Cluster is the kubeconfig cluster joined in place of the context's.
	Cluster string `json:"cluster,omitempty"`
	// Join, if set, takes the cluster from discovery instead, and files the
	// request with a bootstrap token; Context is then "".
	Join *Join `json:"join,omitempty"`
	// Renewal, if set, asks for the successor of a certificate that is there.
	Renewal *Renewal `json:"renewal,omitempty"`
	// Spare asks for a spare of the enrollment that Name, or else the context, names. Once that is known
	// SpareOf is its name, and Name that of the spare's own record. The spare shares its context.
	Spare   bool   `json:"-"`
	SpareOf string `json:"spareOf,omitempty"`
	// Except are the tokens of the other keys of that enrollment.
	Except []hsm.URI `json:"-"`
	// User and Groups are the identity asked for (CN and O).
	User   string   `json:"user"`
	Groups []string `json:"groups,omitempty"`
	// SignerName signs the request. Default kubernetes.io/kube-apiserver-client.
	SignerName string `json:"signerName,omitempty"`
	// Expiration is the lifetime asked for, at least 10 min; 0 leaves it to the signer.
	Expiration time.Duration `json:"expiration,omitempty"`
	// Reason is shown to the approver.
	Reason string `json:"reason,omitempty"`
	// NoAttestation leaves the token's attestation of the key out of the
	// request, for signers that refuse extensions they do not know.
	NoAttestation bool `json:"noAttestation,omitempty"`
	// Adopt signs in with the certificate that the token has with its key: no request is filed, and
	// nothing is written to the token. User and Groups are then the certificate's. ChainFile is
	// a file of certificates in PEM that belong to its chain, FetchChain fetches missing ones from
	// the addresses in the certificates.
	Adopt      bool   `json:"adopt,omitempty"`
	ChainFile  string `json:"-"`
	FetchChain bool   `json:"-"`
	// AcceptDefaults enrolls a token whose PIN, PUK or management key is the
	// default one, which is an error otherwise.
	AcceptDefaults bool `json:"acceptDefaults,omitempty"`
	// AcceptForecast files also a request that is certain to be refused, which is
	// an error otherwise.
	AcceptForecast bool `json:"acceptForecast,omitempty"`
	// AcceptUnverified is the host, with its port as the address has it, of a
	// cluster that is enrolled although its context does not verify it; any other
	// is an [*cluster.UnverifiedError].
	AcceptUnverified string `json:"acceptUnverified,omitempty"`
	// AltNames are the subject alternative names to ask for. They, User and
	// Groups may hold placeholders: {login}, {host}, {serial}, {token}, {context}.
	AltNames AltNames `json:"altNames,omitzero"`
	// Labels are put on the request.
	Labels map[string]string `json:"labels,omitempty"`

	// ApproveWith is a kubeconfig file whose current context may approve the
	// request at once; "" waits for somebody to approve it.
	ApproveWith string `json:"approveWith,omitempty"`
	// KeepCurrent leaves kubeconfig's current-context as it is.
	KeepCurrent bool `json:"keepCurrent,omitempty"`
	// Replace allows a kubeconfig entry of the same name that is not kubehsm's to be replaced.
	Replace bool `json:"replace,omitempty"`
	// Guided says that a person goes through it, who can choose a PIN and be shown a PUK: the
	// default secrets of the token, which are an error otherwise, are replaced on the way.
	Guided bool `json:"-"`
	// Restart forgets what an earlier run of the same name did.
	Restart bool `json:"-"`
	// Timeout bounds the wait for approval; 0 waits until cancelled.
	Timeout time.Duration `json:"-"`
}

// Renewal marks the record of an enrollment that has a certificate and asks for
// its successor.
type Renewal struct {
	// With is the kubeconfig context that files the request; "" files it with the
	// certificate that is still valid.
	With string `json:"with,omitempty"`
	// OldKey is the key that a new one takes the place of.
	OldKey hsm.URI `json:"oldKey,omitzero"`
}

// The risks that can be accepted of an enrollment, by their names on the command line.
const (
	RiskDefaults = "default-secrets"
	RiskForecast = "forecast"
	// RiskUnverified is followed by the host.
	RiskUnverified = "unverified:"
)

// FillDefaults fills in what was not asked for, once name and token are known.
func (o *Options) FillDefaults() {
	Fill(&o.SignerName, csr.ClientSigner)
	Fill(&o.Generate.Algorithm, hsm.ECDSAP256)
	Fill(&o.Generate.Label, o.Name)
	Fill(&o.Generate.Slot, o.Token.NewSlot())
}

// Attests tells whether the request is to carry the token's attestation of the key, if
// the token makes one.
func (o *Options) Attests() bool { return !o.NoAttestation }

// Prospect is the request for a forecast, as far as the options tell; attests says
// whether the token attests its keys.
func (o *Options) Prospect(attests bool) csr.Prospect {
	return csr.Prospect{
		Subject: csr.Subject{User: o.User, Groups: o.Groups}, SignerName: o.SignerName, Expiration: o.Expiration,
		Extension: attests && o.Attests(),
	}
}

// table has the options, in the order in which a command shows them. Where the
// cluster is found and who files the request there (Join, Renewal) is not of it:
// these are things of several parts, some of them secret.
func table() []Option {
	return []Option{
		{
			Flag:  "name",
			Usage: "`name` of the enrollment and of the kubeconfig context; default the context's name with -hsm",
			Label: "Context", Empty: "named after the cluster", Note: "The name of the new kubeconfig context.",
			Heading: HeadingKubeconfig,
			On:      OfEnroll | OfBreakGlass, fixed: fromBegin, shown: inSource, field: func(o *Options) any { return &o.Name },
		},
		{
			Flag: "token", Usage: "`URI` of the token; default the only one present",
			Heading: HeadingKey,
			On:      OfEnroll | OfBreakGlass, fixed: fromToken, shown: inSource, field: func(o *Options) any { return &o.Token },
		},
		{
			Flag: "context", Called: "context", fixed: fromBegin, shown: inSource,
			field: func(o *Options) any { return &o.Context },
		},
		{
			Flag: "user",
			Usage: "user `name` in the certificate (its CN); default the context's. In this and the other names, " +
				"{login}, {host}, {serial}, {token} and {context} are replaced",
			Label: "User", Empty: "who the certificate is for", Required: true,
			Note:    "The name that the cluster knows you by (CN); rights are given to it.",
			Heading: HeadingIdentity,
			On:      OfEnroll | OfRequest, Called: "user", fixed: fromBegin, shown: inSource,
			field: func(o *Options) any { return &o.User },
		},
		{
			Flag: "cluster", Called: "kubeconfig cluster",
			fixed: fromBegin, renewed: true, field: func(o *Options) any { return &o.Cluster },
		},
		{
			Flag:  "group",
			Usage: "`group` of the user in the certificate (an O); default the context's; may be repeated",
			Label: "Groups", Empty: "none", Note: `Separated by commas (O); \, is a comma in a name.`,
			Heading: HeadingIdentity,
			On:      OfEnroll | OfRequest, Called: "groups", fixed: fromBegin, field: func(o *Options) any { return &o.Groups },
		},
		{
			Flag: "key", Usage: "`URI` of an existing key; default a new key",
			Heading: HeadingKey,
			On:      OfEnroll | OfBreakGlass, fixed: fromKey, field: func(o *Options) any { return &o.Key },
		},
		{
			Flag:    "use-certificate",
			Usage:   "sign in with the certificate on the token; file no request, write nothing to the token",
			Heading: HeadingKey,
			On:      OfEnroll, Called: "use of the certificate on the token", fixed: fromBegin,
			field: func(o *Options) any { return &o.Adopt },
		},
		{
			Flag: "chain", Usage: "`file` of the certificates (PEM) between the one on the token and its root",
			Heading: HeadingKey,
			On:      OfEnroll, anew: true, field: func(o *Options) any { return &o.ChainFile },
		},
		{
			Flag: "fetch-chain", Usage: "fetch these certificates from the addresses in the one on the token",
			Heading: HeadingKey,
			On:      OfEnroll, anew: true, field: func(o *Options) any { return &o.FetchChain },
		},
		{
			Flag:    "algorithm",
			Usage:   "`algorithm` of the key: ecdsa-p256 (default), ecdsa-p384, rsa-2048, rsa-3072, rsa-4096, ed25519",
			Label:   "Algorithm",
			Heading: HeadingKey,
			On:      OfKey, Called: "algorithm", fixed: fromBegin, renewed: true, shown: forNewKey,
			field: func(o *Options) any { return &o.Generate.Algorithm },
		},
		{
			Flag: "label", Usage: "label of a PKCS#11 key, any `text`",
			Label: "Label", Empty: "the enrollment's name", Note: "The key's name on the token.",
			Heading: HeadingKey,
			On:      OfKey, fixed: fromKey, renewed: true, shown: forOtherLabel,
			field: func(o *Options) any { return &o.Generate.Label },
		},
		{
			Flag: "slot", Usage: "PIV `slot`: 9a, 9c, 9d, 9e, 82 to 95; default 9a; enroll uses 82 to 95 if 9a has a key",
			Heading: HeadingKey,
			On:      OfKey, Called: "slot", fixed: fromKey, renewed: true, shown: forSlots,
			field: func(o *Options) any { return &o.Generate.Slot },
		},
		{
			Flag: "pin-policy", Usage: "PIN `policy` of a PIV key: never, once, always, default",
			Label:   "PIN",
			Heading: HeadingKey,
			On:      OfKey, Called: "PIN policy", fixed: fromKey, renewed: true, shown: forSlots,
			field: func(o *Options) any { return &o.Generate.PIN },
		},
		{
			Flag: "touch-policy", Usage: "touch `policy` of a PIV key: never, cached, always, default",
			Label:   "Touch",
			Heading: HeadingKey,
			On:      OfKey, Called: "touch policy", fixed: fromKey, renewed: true, shown: forSlots,
			field: func(o *Options) any { return &o.Generate.Touch },
		},
		{
			Flag: "expiration", Usage: "`lifetime` of the certificate to ask for, at least 10m; default the signer's",
			Label:   "Lifetime",
			Note:    "The signer may give less. Short lives are safer: certificates cannot be revoked.",
			Heading: HeadingRequest,
			On:      OfEnroll | OfRequest | OfRenewal, fixed: fromRequest, renewed: true,
			field: func(o *Options) any { return &o.Expiration },
		},
		{
			Flag: "signer-name", Usage: "name of the `signer`; default " + csr.ClientSigner,
			Label: "Signer", Required: true, Note: "The one of the API server makes what kubectl signs in with.",
			Heading: HeadingRequest,
			On:      OfEnroll | OfRequest, Called: "signer name",
			fixed: fromBegin, renewed: true, shown: forOtherSigner,
			field: func(o *Options) any { return &o.SignerName },
		},
		{
			Flag: "no-attestation", Usage: "leave the token's attestation of the key out of the request",
			Heading: HeadingRequest,
			On:      OfEnroll | OfRequest | OfRenewal, fixed: fromRequest,
			field: func(o *Options) any { return &o.NoAttestation },
		},
		{
			Flag: "dns-name", Usage: "DNS `name` in the certificate (a SAN); may be repeated",
			Heading: HeadingRequest,
			On:      OfEnroll | OfRequest, fixed: fromBegin, renewed: true,
			field: func(o *Options) any { return &o.AltNames.DNS },
		},
		{
			Flag: "email", Usage: "e-mail `address` in the certificate (a SAN); may be repeated",
			Heading: HeadingRequest,
			On:      OfEnroll | OfRequest, fixed: fromBegin, renewed: true,
			field: func(o *Options) any { return &o.AltNames.Email },
		},
		{
			Flag: "ip", Usage: "IP `address` in the certificate (a SAN); may be repeated",
			Heading: HeadingRequest,
			On:      OfEnroll | OfRequest, fixed: fromBegin, renewed: true,
			field: func(o *Options) any { return &o.AltNames.IP },
		},
		{
			Flag: "uri", Usage: "`URI` in the certificate (a SAN); may be repeated",
			Heading: HeadingRequest,
			On:      OfEnroll | OfRequest, fixed: fromBegin, renewed: true,
			field: func(o *Options) any { return &o.AltNames.URI },
		},
		{
			Flag: "request-label", Usage: "label of the request, a `key=value`; may be repeated",
			Heading: HeadingRequest,
			On:      OfEnroll | OfRequest, fixed: fromBegin, renewed: true, field: func(o *Options) any { return &o.Labels },
		},
		{Risk: RiskDefaults, On: OfEnroll | OfBreakGlass, field: func(o *Options) any { return &o.AcceptDefaults }},
		{Risk: RiskForecast, On: OfEnroll | OfRequest | OfRenewal | OfBreakGlass,
			field: func(o *Options) any { return &o.AcceptForecast }},
		{Risk: RiskUnverified, On: OfEnroll | OfBreakGlass, field: func(o *Options) any { return &o.AcceptUnverified }},
		{
			Flag: "approve-with", Usage: "kubeconfig `file` of an approver, to approve the request at once",
			Heading: HeadingApproval,
			On:      OfEnroll | OfRenewal, anew: true, field: func(o *Options) any { return &o.ApproveWith },
		},
		{
			Flag: "reason", Usage: "reason for the request, a `text` that the approver sees",
			Label: "Reason", Empty: "none", Note: "The approver sees it.",
			Heading: HeadingApproval,
			On:      OfEnroll | OfRequest | OfRenewal | OfBreakGlass, fixed: fromRequest,
			field: func(o *Options) any { return &o.Reason },
		},
		{
			Flag: "timeout", Usage: "time limit for the approval, a `duration` such as 1h; default none",
			Heading: HeadingApproval,
			On:      OfEnroll | OfRenewal | OfBreakGlass, anew: true, field: func(o *Options) any { return &o.Timeout },
		},
		{
			Flag:    "overwrite",
			Usage:   "destroy the key in an occupied PIV slot, after you have typed the token's serial",
			Heading: HeadingKey,
			On:      OfKey, fixed: fromKey, anew: true, field: func(o *Options) any { return &o.Generate.Overwrite },
		},
		{
			Flag: "keep-current", Usage: "do not change the current context of the kubeconfig",
			Label:   "Switch to it",
			Heading: HeadingKubeconfig,
			On:      OfEnroll, field: func(o *Options) any { return &o.KeepCurrent },
		},
		{
			Flag: "replace", Usage: "replace a kubeconfig entry of the same name that is not kubehsm's",
			Heading: HeadingKubeconfig,
			On:      OfEnroll, anew: true, field: func(o *Options) any { return &o.Replace },
		},
		{
			Flag: "restart", Usage: "start anew instead of continuing an interrupted run of the same name",
			On: OfEnroll, anew: true, field: func(o *Options) any { return &o.Restart },
		},
	}
}
