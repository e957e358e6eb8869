package checkpoint

// Way is a connection between the machine on which a tree lies, or shall lie, and
// that of a store: what goes over it does not come here.
type Way struct {
	// Name is what the agents at both ends call it by.
	Name string
	// Told is told how many bytes of the tree have been sent, once in a while.
	Told func(done int64)
	// Cut ends it, and with it whatever goes over it.
	Cut func()
}

// Straight is what a Source or a Sink is further that may have a Way; nil: its tree
// comes here.
type Straight interface{ Way() *Way }

// WayOf gives the way of a Source or a Sink.
func WayOf(tree any) *Way {
	if s, may := tree.(Straight); may {
		return s.Way()
	}
	return nil
}
