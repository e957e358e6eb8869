package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// clouds measures runs on rented machines, by the benchmarks of test/bench/clouds, and how soon an own image of such machines
// has Docker.
func (b *bench) clouds(int) error {
	rows := filepath.Join(b.dir, "clouds")
	c := b.command("go", "test", "-run", "^$", "-bench", ".", "-benchtime", "1x", "-timeout", "2h", "./test/bench/clouds")
	c.Env = append(c.Env, "BEE_TEST_BINARY="+b.bee, "BEE_BENCH_ROWS="+rows, "CGO_ENABLED=0")
	var err error
	if c.Dir, err = os.Getwd(); err != nil {
		return err
	}
	out, err := c.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("measure rented machines: %w\n%s", err, out)
	}
	return errors.Join(b.readRows(rows), err)
}

// readRows adds the rows of a file, if it is there.
func (b *bench) readRows(name string) error {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var r [4]string
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return err
		}
		b.rows = append(b.rows, r)
	}
	return lines.Err()
}
