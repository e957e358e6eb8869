package cgroup

import "errors"

// Bound is the limit of memory of one container: a group, or why there is none. A nil Bound
// is of a container without a limit.
type Bound struct {
	group *Group
	why   error
}

// Limit returns the bound of a container whose processes may use so many bytes; 0: all.
func Limit(bytes int64) *Bound {
	if bytes <= 0 {
		return nil
	}
	g, err := Make(bytes)
	return &Bound{g, err}
}

// None returns the bound of a container whose memory cannot be limited, with the reason.
func None(why error) *Bound { return &Bound{why: why} }

// Holds reports whether there is a group to add processes to.
func (b *Bound) Holds() bool { return b != nil && b.group != nil }

// Add puts a process into the group, if there is one. Where that fails, there is no limit.
func (b *Bound) Add(pid int) {
	if !b.Holds() {
		return
	}
	if err := b.group.Add(pid); err != nil {
		b.why = unsupported(errors.Join(err, b.group.Remove()))
		b.group = nil
	}
}

// Why is why a limit was asked for and does not hold, or nil.
func (b *Bound) Why() error {
	if b == nil {
		return nil
	}
	return b.why
}

// Kills counts the processes that the kernel has killed because the limit was reached.
func (b *Bound) Kills() int {
	if !b.Holds() {
		return 0
	}
	return b.group.Kills()
}

// Remove removes the group, once its last process has ended. Idempotent.
func (b *Bound) Remove() error {
	if !b.Holds() {
		return nil
	}
	return b.group.Remove()
}
