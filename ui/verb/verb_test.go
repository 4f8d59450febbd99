package verb

import (
	"reflect"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/kubehsm/kubehsm/hsm"
)

// TestOptions: what a command line sets, a form shows, and the other way round.
func TestOptions(t *testing.T) {
	type values struct {
		Name   string
		Groups []string
		Labels map[string]string
		Force  bool
		Life   time.Duration
		Make   hsm.Algorithm
		Touch  hsm.TouchPolicy
		Key    hsm.URI
	}
	describe := func(v *values) []Option {
		return []Option{{Flag: "name", Into: &v.Name}, {Flag: "group", Into: &v.Groups}, {Flag: "label", Into: &v.Labels},
			{Flag: "force", Into: &v.Force}, {Flag: "life", Into: &v.Life}, {Flag: "make", Into: &v.Make},
			{Flag: "touch", Into: &v.Touch}, {Flag: "key", Into: &v.Key}}
	}
	var given values
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	Bind(flags, describe(&given)...)
	if err := flags.Parse([]string{"--name", "it's", "--group", "a,b", "--group", "c", "--label", "k=v", "--force",
		"--life", "1h", "--make", "ed25519", "--touch", "always", "--key", "piv:slot=9a"}); err != nil {
		t.Fatal(err)
	}
	const want = `kubehsm key make prod --name 'it'\''s' --group a,b --group c --label k=v --force --life 1h0m0s ` +
		`--make ed25519 --touch always --key piv:slot=9a`
	if got := Line("key make", append([]Option{Argument("prod")}, describe(&given)...)...); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := Line("key make", append(describe(new(values)), Flag("why", ""))...); got != "kubehsm key make" {
		t.Errorf("nothing given: %s", got)
	}
	again := values{Labels: given.Labels} // no form asks for these
	to := describe(&again)
	for i, o := range describe(&given) {
		if o.Flag == "label" {
			continue
		}
		if err := to[i].Set(" " + o.Text() + " "); err != nil {
			t.Errorf("%s: %v", o.Flag, err)
		}
	}
	if !reflect.DeepEqual(given, again) {
		t.Errorf("got %+v\nwant %+v", again, given)
	}
	for flag, value := range map[string]string{"make": "des", "touch": "often", "key": "x:y", "life": "long", "label": "k"} {
		if err := flags.Set(flag, value); err == nil {
			t.Errorf("--%s %s is taken", flag, value)
		}
	}
}

func TestSeparator(t *testing.T) {
	var rules []string
	o := Option{Into: &rules, Separator: ';'}
	if err := o.Set(`verbs=get,list; ; a\;b;verbs=get,list`); err != nil || !reflect.DeepEqual(rules, []string{"verbs=get,list", "a;b"}) {
		t.Errorf("got %q, %v", rules, err)
	}
	if got := o.Text(); got != `verbs=get,list; a\;b` {
		t.Errorf("got %q", got)
	}
}
