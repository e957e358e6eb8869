package main

import (
	"fmt"
	"regexp"
	"time"
)

var up = regexp.MustCompile(`virtual machine up after ([0-9.a-zµ]+)`)

// ownStart is how long one of bee's guests took until docker answered in it, as
// bee itself tells.
func (b *bench) ownStart(memory int) (time.Duration, error) {
	if err := b.guests(1, memory); err != nil {
		return 0, err
	}
	text, err := b.do(b.bee, "run", "guests.yaml")
	if err != nil {
		return 0, err
	}
	found := up.FindStringSubmatch(text)
	if found == nil {
		return 0, fmt.Errorf("bee did not tell how long the machine took:\n%s", text)
	}
	return time.ParseDuration(found[1])
}

// guests writes a job of some guests on this host, with so many MiB each.
func (b *bench) guests(count, memory int) error {
	return b.write("guests.yaml", fmt.Sprintf("name: nothing\nimage: docker-archive:busybox.tar\nnodes: %d\nvm: {per_host: %d, cpus: 2, memory: %dM, accel: tcg}\nrun: [\"true\"]\n", count, count, memory))
}
