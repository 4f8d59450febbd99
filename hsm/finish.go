package hsm

// Finishing is called by what must not be left half-way, and returns what is called at
// the end of it: a program that is told to end knows by it why it does not yet. Nil is
// told to nobody.
type Finishing func() (done func())

// Begin says that something goes on, until done is called.
func (f Finishing) Begin() (done func()) {
	if f == nil {
		return func() {}
	}
	return f()
}
