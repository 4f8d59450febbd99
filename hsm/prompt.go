package hsm

import "context"

// PINKind says which secret is asked for, in the words printed on prompts.
type PINKind string

// The kinds. People mix up a YubiKey's FIDO PIN and PIV PIN: say which.
const (
	UserPIN       PINKind = "PIN"            // PKCS#11 CKU_USER
	SOPIN         PINKind = "SO PIN"         // PKCS#11 CKU_SO
	PIVPIN        PINKind = "PIV PIN"        // SP 800-73-4 key reference 80
	PUK           PINKind = "PUK"            // SP 800-73-4 key reference 81
	ManagementKey PINKind = "management key" // SP 800-73-4 key reference 9B
)

// Purpose says why a person is asked, for the prompt to name. A driver does not know:
// whoever calls it adds the purpose to its prompts on their way (package ask).
type Purpose struct {
	// Cluster is the name under which the user enrolled the cluster; never
	// text from a kubeconfig.
	Cluster string `json:"cluster,omitempty"`
	// Action is a clause: "sign in", "generate a key", "store the certificate".
	Action string `json:"action,omitempty"`
	// Command is the program that waits, as "kubectl get pods", if known.
	Command string `json:"command,omitempty"`
	// Notice are sentences that the person must read first, such as that a consent
	// policy was lowered.
	Notice string `json:"notice,omitempty"`
	// Fields say it in place of Cluster, Action and Command, for prompts that know them.
	Fields []Field `json:"fields,omitempty"`
}

// Field is one thing that a question is about. A prompt shows each value on lines of its
// own behind the label, so that no value can pass for another field.
type Field struct {
	// Label is one of the program's own words, such as "Namespace".
	Label string `json:"label"`
	// Values are one line each; a prompt that has no room leaves some of them out, and
	// says so.
	Values []string `json:"values"`
	// Minor says that a prompt without room leaves the field out before it shortens others.
	Minor bool `json:"minor,omitempty"`
}

// PINPrompt asks for a secret.
type PINPrompt struct {
	Kind    PINKind   `json:"kind"`
	Token   TokenInfo `json:"token"`
	Purpose Purpose   `json:"purpose"`
	// Retries is the number of tries left, -1 unknown.
	Retries int `json:"retries"`
	// Again is why it is asked once more ("wrong PIN"), "" the first time.
	Again string `json:"again,omitempty"`
	// Told is the number of tries left that Again tells, 0 if it tells none.
	Told int `json:"told,omitempty"`
	// More, if not nil, tells of what was read whether a further line belongs to it. An
	// empty line ends it in any case.
	More func([]byte) bool `json:"-"`
	// New: a new secret is chosen (ask twice).
	New bool `json:"new,omitempty"`
	// Typed: it must be given for this purpose, typed or by --pin-fd. No source of the
	// configuration may answer.
	Typed bool `json:"typed,omitempty"`
}

// TriesToTell is the number of tries left that is still to be shown beside Again, 0
// if there is none.
func (p PINPrompt) TriesToTell() int {
	if p.New || p.Told == p.Retries {
		return 0
	}
	return max(p.Retries, 0)
}

// TouchPrompt says that a token waits to be touched, or for a PIN that is typed on
// its reader.
type TouchPrompt struct {
	Token   TokenInfo `json:"token"`
	Purpose Purpose   `json:"purpose"`
	// Pad is that PIN; "" is a touch.
	Pad PINKind `json:"pad,omitempty"`
}

// ConfirmPrompt asks a yes-or-no question.
type ConfirmPrompt struct {
	// Question is one line: "use the last PIN try?".
	Question string `json:"question"`
	// Detail is zero or more lines shown above the question.
	Detail string `json:"detail,omitempty"`
	// Notice and Fields are what the question is about. They are shown in place of Detail,
	// which repeats them for prompts of older programs.
	Notice string  `json:"notice,omitempty"`
	Fields []Field `json:"fields,omitempty"`
	// More are the details that a person can ask for before the answer. A prompt that has no
	// key for that leaves them out.
	More []string `json:"more,omitempty"`
	// Type, if set, is what must be typed for a yes (a serial).
	Type string `json:"type,omitempty"`
	// Short, if set, is the end of Type that is accepted in place of the whole.
	Short string `json:"short,omitempty"`
	// Typed, if not nil, tells in place of Type whether what was typed is a yes. Wanted names
	// what that is, a clause.
	Typed  func(typed string) bool `json:"-"`
	Wanted string                  `json:"-"`
	// DefaultYes makes Enter mean yes. Destructive questions leave it false.
	DefaultYes bool `json:"defaultYes,omitempty"`
}

// ByTyping tells whether something must be typed for a yes.
func (p ConfirmPrompt) ByTyping() bool { return p.Type != "" || p.Typed != nil }

// Accepts tells whether typed answers yes to a question that is answered by typing.
func (p ConfirmPrompt) Accepts(typed string) bool {
	if p.Typed != nil {
		return p.Typed(typed)
	}
	return p.Type != "" && (typed == p.Type || p.Short != "" && typed == p.Short)
}

// Prompter asks a person. Implementations are in the ui; drivers and agents
// only know this. Methods return [ErrCancelled] when the person declines to
// answer, [ErrNoTerminal] when nobody can be asked, or ctx's error.
type Prompter interface {
	// PIN returns a secret that the caller zeroes.
	PIN(ctx context.Context, p PINPrompt) (*Secret, error)
	// Touch shows that a touch is awaited until the returned function is
	// called (once or more). It returns at once; a prompter may wait a moment
	// before it shows anything, as most tokens answer without a touch.
	Touch(ctx context.Context, p TouchPrompt) (done func())
	// Confirm returns the answer.
	Confirm(ctx context.Context, p ConfirmPrompt) (bool, error)
}
