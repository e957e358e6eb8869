package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// burst compares burst buffers with their peers, and predictions of the simulator with what is
// measured, on emulated hosts with a far one. Its rows are printed as they come.
func (b *bench) burst(rounds int) error {
	program := filepath.Join(b.dir, "burst-program")
	build := b.command("go", "build", "-o", program, "./test/bench/burst") // it runs in containers, too
	build.Env = append(build.Env, "CGO_ENABLED=0")
	var err error
	if build.Dir, err = os.Getwd(); err != nil {
		return err
	}
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	dir := filepath.Join(b.dir, "burst")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	argv := []string{program, "-bee", b.bee, "-image", "busybox.tar", "-dir", dir}
	if rounds < 30 {
		argv = append(argv, "-quick")
	}
	c := b.command(argv...)
	var said bytes.Buffer
	c.Stderr = &said
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	rows := json.NewDecoder(out)
	for {
		var r struct{ What, Measured, Against, Ratio string }
		if err = rows.Decode(&r); err != nil {
			break
		}
		b.rows = append(b.rows, [4]string{r.What, r.Measured, r.Against, r.Ratio})
		b.print()
	}
	if errors.Is(err, io.EOF) {
		err = nil
	} else {
		c.Process.Kill() // it would wait for a reader
	}
	if werr := c.Wait(); err == nil && werr != nil {
		err = fmt.Errorf("measure burst buffers: %w\n%s", werr, said.Bytes())
	}
	return err
}
