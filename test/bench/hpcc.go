package main

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// hpccInput writes the input of the example, with a problem of another size.
func (b *bench) hpccInput(size int) error {
	input, err := os.ReadFile("examples/hpcc/input/hpccinf.txt")
	if err != nil {
		return err
	}
	return b.write("hpccinf.txt", strings.Replace(string(input), "1000         Ns", fmt.Sprintf("%-12d Ns", size), 1))
}

// summaryLine is one figure of HPCC's summary.
var summaryLine = regexp.MustCompile(`(?m)^(\w+)=([-+.\deE]+)$`)

func hpccFigures(text string) (map[string]float64, error) {
	out := map[string]float64{}
	for _, m := range summaryLine.FindAllStringSubmatch(text, -1) {
		x, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			return nil, err
		}
		out[m[1]] = x
	}
	return out, nil
}
