package enrolling

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/kubeconfig/discovery"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/test/must"
)

// whole is a record in which every field has a value.
func whole() *Progress {
	key := hsm.URI{Scheme: hsm.SchemePIV, Serial: "123", Slot: "9c"}
	return &Progress{
		Options: Options{
			Name: "prod-hsm", Token: key.TokenOnly(), Key: key,
			Generate: hsm.GenerateOptions{Slot: "9c", Label: "l", Algorithm: hsm.ECDSAP384, PIN: hsm.PINAlways,
				Touch: hsm.TouchCached, Overwrite: true},
			Context: "it's prod", Cluster: "spare",
			Join: &Join{Endpoint: "10.0.0.1:6443", Pins: []discovery.Pin{{1}}, UnsafeSkipCAVerification: true, File: "f",
				Ticket: "abcdef",
				Policy: ticket.Attested, Serial: "123"},
			Renewal: &Renewal{With: "admin", OldKey: key}, User: "jane", Groups: []string{"dev", "a,b"},
			SignerName: "example.com/s",
			Expiration: time.Hour, Reason: "new laptop", NoAttestation: true,
			Adopt: true, ChainFile: "/chain", FetchChain: true, AcceptDefaults: true, AcceptForecast: true,
			AcceptUnverified: "10.0.0.1:6443",
			AltNames: AltNames{DNS: []string{"d"}, Email: []string{"e@x"}, IP: []string{"10.0.0.2"},
				URI: []string{"spiffe://x"}},
			Labels: map[string]string{"team": "a b", "k": "v"}, ApproveWith: "/a b", KeepCurrent: true, Replace: true,
			Restart: true, Timeout: time.Minute,
		},
		Cluster: cluster.Cluster{Server: "https://10.0.0.1:6443", CAData: []byte("ca")}, Namespace: "team", Generating: true,
		Before:   []string{"00"},
		Request:  Request{Name: "jane-1", UID: "uid", Key: key, KeyHash: "0102", Spec: csr.Spec{Request: []byte("pem")}},
		Reported: "uid", Certificate: []byte("cert"),
		Rejected: true, Done: []Step{StepToken, StepKey}, Updated: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}
}

// TestRecord: a record has the form of its file, and is read back whole.
func TestRecord(t *testing.T) {
	for file, j := range map[string]*Progress{"testdata/progress.json": whole(),
		"testdata/begun.json": {Options: Options{Name: "x", Token: hsm.URI{Scheme: hsm.SchemePKCS11, Token: "blue"},
			User: "jane"}}} {
		want, err := os.ReadFile(file)
		must.OK(t, err)
		got, err := json.MarshalIndent(j, "", "  ")
		if got = append(got, '\n'); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v\n%s", file, err, got)
		}
		var back Progress
		must.OK(t, json.Unmarshal(want, &back))
		if r := back.Request; r.Name != r.Spec.Name || r.Spec.SignerName != "" &&
			(r.Context != back.Options.Context || r.Server != back.Cluster.Server ||
				r.Spec.Expiration != back.Options.Expiration || len(r.Spec.Labels) != len(back.Options.Labels)) {
			t.Errorf("%s has the request %+v", file, r)
		}
		if again, err := json.MarshalIndent(&back, "", "  "); err != nil || !bytes.Equal(append(again, '\n'), want) {
			t.Errorf("%s, read and written: %v\n%s", file, err, again)
		}
	}
}

// TestCommand: the command that does the same has every option that was given, and no
// secret.
func TestCommand(t *testing.T) {
	all := whole().Options
	all.Join, all.Renewal = nil, nil
	few := Options{Name: "blue-hsm", Token: hsm.URI{Scheme: hsm.SchemePKCS11, Token: "blue"}, Context: "blue",
		User: "jane"}
	few.FillDefaults()
	none := few
	none.Groups, none.AltNames, none.Labels = []string{}, AltNames{DNS: []string{}}, map[string]string{}
	labelled := few
	labelled.Generate.Label, labelled.Groups, labelled.AcceptForecast = "my key", []string{"dev"}, true
	card := few
	card.Token, card.Generate.Slot = all.Token, "9a"
	joined := card
	joined.Context = ""
	joined.Join = &Join{Endpoint: "https://10.0.0.1:6443", Pins: []discovery.Pin{{1}}, UnsafeSkipCAVerification: true}
	ticket := joined
	ticket.Join = &Join{Ticket: "abcdef"}
	for _, tc := range []struct {
		o                Options
		kubeconfig, want string
	}{
		{all, "", `kubehsm enroll --name prod-hsm --token piv:serial=123 --context 'it'\''s prod' --user jane --cluster spare --group dev --group a,b --key 'piv:serial=123;slot=9c' --use-certificate --chain /chain --fetch-chain --expiration 1h0m0s --signer-name example.com/s --no-attestation --dns-name d --email e@x --ip 10.0.0.2 --uri spiffe://x --request-label k=v --request-label 'team=a b' --approve-with '/a b' --reason 'new laptop' --timeout 1m0s --overwrite --keep-current --replace --restart --accept-risk default-secrets,forecast,unverified:10.0.0.1:6443`},
		{Options{}, "", "kubehsm enroll"},
		{Options{AcceptForecast: true}, "", "kubehsm enroll --accept-risk forecast"},
		{Options{Token: few.Token, User: "jane"}, "", "kubehsm enroll --token pkcs11:token=blue --user jane"},
		{few, "/k b", `kubehsm enroll --name blue-hsm --token pkcs11:token=blue --context blue --user jane --kubeconfig '/k b' --algorithm ecdsa-p256`},
		{none, "", `kubehsm enroll --name blue-hsm --token pkcs11:token=blue --context blue --user jane --algorithm ecdsa-p256`},
		{labelled, "", `kubehsm enroll --name blue-hsm --token pkcs11:token=blue --context blue --user jane --group dev --algorithm ecdsa-p256 --label 'my key' --accept-risk forecast`},
		{card, "", `kubehsm enroll --name blue-hsm --token piv:serial=123 --context blue --user jane --algorithm ecdsa-p256 --slot 9a`},
		{joined, "", `kubehsm join --name blue-hsm 10.0.0.1:6443 --token - --discovery-token-ca-cert-hash sha256:0100000000000000000000000000000000000000000000000000000000000000 --discovery-token-unsafe-skip-ca-verification --hsm piv:serial=123 --user jane --algorithm ecdsa-p256 --slot 9a`},
		{ticket, "", `kubehsm join --name blue-hsm --ticket - --hsm piv:serial=123 --user jane --algorithm ecdsa-p256 --slot 9a`},
	} {
		if got := tc.o.Command(tc.kubeconfig); got != tc.want {
			t.Errorf("got  %s\nwant %s", got, tc.want)
		}
	}
}

// TestTable: every option of the table is in the record with every field, and no two options
// share a name.
func TestTable(t *testing.T) {
	all, names, fields := whole().Options, map[string]bool{}, map[any]bool{}
	for _, x := range table() {
		name := x.Flag + x.Risk
		if names[name] || fields[x.Of(&all).Into] {
			t.Errorf("%s is declared twice", name)
		}
		names[name], fields[x.Of(&all).Into] = true, true
		if x.value(&all).IsZero() {
			t.Errorf("%s is not of the record", name)
		}
		var some Options
		if x.fill(&some, &all); x.value(&some).IsZero() {
			t.Errorf("%s is not filled in", name)
		}
		if x.On != 0 && x.Risk == "" && x.Usage == "" {
			t.Errorf("%s has no words", name)
		}
	}
}

// other gives an option of o another value.
func (x Option) other(o *Options) {
	switch p := x.Of(o).Into.(type) {
	case *string:
		*p += "x"
	case *[]string:
		*p = []string{"x"}
	case *bool:
		*p = !*p
	case *time.Duration:
		*p += time.Hour
	case *map[string]string:
		*p = map[string]string{"x": "y"}
	case *hsm.URI:
		p.Serial += "x"
	case *hsm.Algorithm:
		*p = hsm.RSA2048
	case *hsm.PINPolicy:
		*p = hsm.PINNever
	case *hsm.TouchPolicy:
		*p = hsm.TouchNever
	}
}

// TestEveryOptionAtEveryStage: at each stage of an enrollment a later run can change the
// options that are open. It is refused when it changes a fixed one, and leaves the rest.
func TestEveryOptionAtEveryStage(t *testing.T) {
	for name, tc := range map[string]struct {
		closed []stage
		at     func(*Progress)
	}{
		"begun": {[]stage{fromBegin}, func(*Progress) {}},
		"token": {[]stage{fromBegin, fromToken}, func(j *Progress) { j.Mark(StepToken) }},
		"key": {[]stage{fromBegin, fromToken, fromKey}, func(j *Progress) {
			j.Mark(StepToken)
			j.Request.Key, j.Request.KeyHash = j.Options.Key, "0102"
		}},
		"request": {[]stage{fromBegin, fromToken, fromKey, fromRequest}, func(j *Progress) {
			j.Mark(StepToken)
			j.Request.Key, j.Request.KeyHash = j.Options.Key, "0102"
			j.Request.Ask("jane-1", []byte("pem"), &j.Options)
		}},
	} {
		for _, x := range table() {
			j := &Progress{Options: whole().Options}
			tc.at(j)
			now := j.Options
			x.other(&now)
			closed := slices.Contains(tc.closed, x.fixed)
			refused := closed && (x.Called != "" || x.Flag == "token" || x.Flag == "key")
			j.Options.Adopt = false // an adopted certificate has no request
			now.Adopt = x.Flag == "use-certificate"
			err := j.Continue(now)
			var conflict *ConflictError
			if errors.As(err, &conflict) != refused || (err != nil) != refused {
				t.Errorf("%s, another %s: %v", name, x.Flag+x.Risk, err)
				continue
			}
			if took := reflect.DeepEqual(x.Of(&j.Options).Into, x.Of(&now).Into); took == closed {
				t.Errorf("%s, another %s: taken is %v", name, x.Flag+x.Risk, took)
			}
		}
	}
}

// TestAcceptRisk: a risk is accepted by its name, if the command has it.
func TestAcceptRisk(t *testing.T) {
	for name, want := range map[string]Options{
		RiskDefaults: {AcceptDefaults: true},
		RiskForecast: {AcceptForecast: true}, RiskUnverified + "h:1": {AcceptUnverified: "h:1"},
	} {
		var o Options
		if !o.AcceptRisk(OfEnroll, name) || !reflect.DeepEqual(o, want) {
			t.Errorf("%s: %+v", name, o)
		}
		if took := new(Options).AcceptRisk(OfRenewal, name); took != (name == RiskForecast) {
			t.Errorf("%s of a renewal: %v", name, took)
		}
	}
	for _, name := range []string{"", "x", RiskUnverified} {
		if o := (Options{}); o.AcceptRisk(OfEnroll, name) {
			t.Errorf("%q is accepted: %+v", name, o)
		}
	}
}
