package enrolling

import (
	"reflect"
	"slices"
	"strings"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/ui/verb"
)

// Option is what there is to know of one option of an enrollment, or of one risk that
// can be accepted.
type Option struct {
	// Flag is the option's name on the command line, without dashes. Usage describes it,
	// with the kind of the value in back quotes.
	Flag, Usage string
	// Heading is where the help of a command with many flags shows the flag, "" among the flags of no kind.
	Heading string
	// Label, Empty, Note and Required are those of the form's field, as in [verb.Option].
	Label, Empty, Note string
	Required           bool
	// Risk is the value of --accept-risk, for an option without a flag of its own. After a
	// Risk that ends with a colon stands what is accepted.
	Risk string
	// On are the commands that have the option.
	On Commands
	// Called is the option in the words of a [ConflictError]. An option without it is no
	// conflict: an enrollment that was begun keeps what it has, whatever a later run says.
	Called string

	// fixed is the stage from which on a later run cannot change the option.
	fixed stage
	// anew says that a later run does not take the option from the record of an earlier one.
	anew bool
	// renewed says that a renewal takes the option from the record of the enrollment.
	renewed bool
	// shown tells whether the command that does the same shows the option. With nil it
	// does if the option has a value.
	shown func(*Options) bool
	// field returns a pointer to the option's field.
	field func(*Options) any
}

// The headings of [Option].
const (
	HeadingIdentity   = "Identity flags"
	HeadingKey        = "Key flags"
	HeadingRequest    = "Certificate request flags"
	HeadingApproval   = "Approval flags"
	HeadingKubeconfig = "Kubeconfig flags"
)

// Commands are commands of the command line, by the options that they have.
type Commands uint

// The groups of commands.
const (
	OfEnroll     Commands = 1 << iota // enroll, join, kubeconfig migrate
	OfRequest                         // csr create, csr forecast
	OfRenewal                         // certificate renew
	OfBreakGlass                      // breakglass request
	OfKey                             // key generate, and all those that make a key
)

// stage is a point of an enrollment.
type stage int

const (
	never stage = iota // the option may change with each run
	fromBegin
	fromToken   // the option is fixed once the token is found
	fromKey     // the option is fixed once there is a key
	fromRequest // the option is fixed once there is a request
)

// Flags are the options that commands have as flags of their own.
func Flags(on Commands) []Option {
	return slices.DeleteFunc(table(), func(x Option) bool { return x.On&on == 0 || x.Flag == "" })
}

// Risks are the names of the risks that can be accepted with commands.
func Risks(on Commands) []string {
	var names []string
	for _, x := range table() {
		if x.On&on != 0 && x.Risk != "" {
			names = append(names, x.Risk)
		}
	}
	return names
}

// Of is the option as the value in o.
func (x Option) Of(o *Options) verb.Option {
	return verb.Option{Flag: x.Flag, Usage: x.Usage, Into: x.field(o), Label: x.Label, Empty: x.Empty, Note: x.Note,
		Required: x.Required}
}

// Form are the options with these flags, for a form that fills o.
func Form(o *Options, flags ...string) []verb.Option {
	form := make([]verb.Option, len(flags))
	for _, x := range table() {
		if i := slices.Index(flags, x.Flag); i >= 0 {
			form[i] = x.Of(o)
		}
	}
	return form
}

func (x Option) value(o *Options) reflect.Value { return reflect.ValueOf(x.field(o)).Elem() }

// copy copies the option's value from one set of options to another.
func (x Option) copy(to, from *Options) { x.value(to).Set(x.value(from)) }

// fill is copy, if to leaves the option open.
func (x Option) fill(to, from *Options) {
	if x.value(to).IsZero() {
		x.copy(to, from)
	}
}

// AcceptRisk accepts a risk by its name, if it is one of the commands'.
func (o *Options) AcceptRisk(on Commands, name string) bool {
	for _, x := range table() {
		if x.Risk == "" || x.On&on == 0 {
			continue
		}
		switch p := x.field(o).(type) {
		case *bool:
			if name == x.Risk {
				*p = true
				return true
			}
		case *string:
			if what, ok := strings.CutPrefix(name, x.Risk); ok && what != "" {
				*p = what
				return true
			}
		}
	}
	return false
}

// FillFrom fills what o leaves open from the record of an earlier run.
func (o *Options) FillFrom(j *Progress) {
	old, keep := j.Options, o.KeepCurrent
	Fill(&o.SpareOf, old.SpareOf)
	if o.Join == nil || old.Join != nil {
		o.Join = old.Join.With(o.Join)
	}
	for _, x := range table() {
		if !x.anew {
			x.fill(o, &old)
		}
	}
	if j.Finished() || old.Renewal != nil { // a run that is not resumed decides for itself about the current context
		o.KeepCurrent = keep
	}
	if SameToken(o.Token, old.Token) {
		o.Token = old.Token
	}
}

// FillRenewed fills what o leaves open for the renewal of an enrollment with these options.
func (o *Options) FillRenewed(old Options) {
	for _, x := range table() {
		if x.renewed {
			x.fill(o, &old)
		}
	}
	o.Join = old.Join
}

// TakeTerms takes from now the options that a later run may change until there is a request.
func (o *Options) TakeTerms(now Options) {
	for _, x := range table() {
		if x.fixed == fromRequest {
			x.copy(o, &now)
		}
	}
}

// TakeRenewal takes from now the options of a renewal, without those of the key. Of a renewal
// that was begun before it takes only the options that each run may change.
func (o *Options) TakeRenewal(now Options, begun bool) {
	for _, x := range table() {
		if x.On&OfRenewal != 0 && (!begun || x.fixed == never) {
			x.copy(o, &now)
		}
	}
}

// The conditions on which the same command shows an option.

func inSource(*Options) bool { return false } // the command line begins with the option

func forNewKey(o *Options) bool { return o.Key.Scheme == "" }

func forOtherLabel(o *Options) bool {
	return forNewKey(o) && !forSlots(o) && o.Generate.Label != o.Name
}

// forSlots: the URI of an existing key names its slot, and its policies are fixed.
func forSlots(o *Options) bool { return forNewKey(o) && o.Token.Kind().HasSlots() }

func forOtherSigner(o *Options) bool { return o.SignerName != csr.ClientSigner }
