package domain

import (
	"github.com/bee-hpc/bee/internal/rdma/broker"
	"golang.org/x/sys/unix"
)

// introduce passes a process of this broker on, unless the other one has it.
func (l *link) introduce(n uint32, p broker.Process) {
	if !l.known[n] {
		l.known[n] = true
		l.send(kindProcess, l.far.o.Host.Descriptors(p), number{n})
	}
}

// forget notes that a process of this broker has ended.
func (l *link) forget(n uint32) {
	if l.known[n] {
		delete(l.known, n)
		l.send(kindEnded, nil, number{n})
	}
}

// processDescriptors is how many a process has for its peers.
const processDescriptors = 3

// mostProcesses bounds those of the other broker.
const mostProcesses = 1 << 16

func (l *link) takeProcess(raw []byte, d *passed) error {
	var m number
	if whole(raw, &m) != nil || l.processes[m.Process] != nil || len(l.processes) == mostProcesses {
		return errMessage
	}
	descriptors, is := d.take(processDescriptors)
	if !is {
		return errMessage
	}
	p, err := l.far.o.Host.Process(descriptors)
	if err == nil {
		l.processes[m.Process] = p
	}
	return err
}

func (l *link) takeEnded(raw []byte) error {
	var m number
	if whole(raw, &m) != nil || l.processes[m.Process] == nil {
		return errMessage
	}
	p := l.processes[m.Process]
	for _, c := range l.pairs { // there are none, as its queue pairs have gone before
		if c.process == p {
			c.gone()
		}
	}
	for n, e := range l.early {
		if e.process == p {
			e.close()
			delete(l.early, n)
		}
	}
	for _, q := range l.questions {
		if q.inbox.Owner == p {
			q.fail(unix.ENOENT)
		}
	}
	delete(l.processes, m.Process)
	p.Close()
	return nil
}
