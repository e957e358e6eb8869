package message

// CMAddress is an address of a connection, with its port.
type CMAddress struct {
	Family, Port uint16 // 4, 6, or 0: none
	Own          uint32 // 1: the program's kernel says that it is one of its container
	IP           [16]byte
}

// CMParam are the parameters of a connection, as those see them who get them.
type CMParam struct {
	QP, QKey                            uint32
	ResponderResources, InitiatorDepth  uint8
	Retries, RNRRetries                 uint8
	FlowControl, SRQ, PrivateBytes, Pad uint8
	Private                             [CMPrivate]byte
}

// CMCall is a request about an identifier or event channel.
type CMCall struct{ Handle, Value uint32 }

// CMBind gives an identifier an address.
type CMBind struct {
	Handle, _ uint32
	Address   CMAddress
}

// CMBindReply has the address that it has then.
type CMBindReply struct{ Local CMAddress }

// CMResolve looks for the node that has an address.
type CMResolve struct {
	Handle, _           uint32
	Source, Destination CMAddress
}

// CMResolveReply has the addresses of both nodes.
type CMResolveReply struct {
	Local CMAddress
	LID   uint16
	_     [3]uint16
	GID   [16]byte
}

// CMAnswer requests, accepts or rejects a connection.
type CMAnswer struct {
	Handle, Reason uint32
	Param          CMParam
}

// CMEvent is an event of an identifier.
type CMEvent struct {
	Event         uint32
	Status        int32
	Handle, Child uint32
	LID           uint16
	_             [3]uint16
	GID           [16]byte
	Local, Remote CMAddress
	Param         CMParam
	_             uint32
}
