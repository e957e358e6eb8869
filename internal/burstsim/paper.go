package burstsim

import "math"

// Differences are where the text of the published study and its formula differ, or
// where the formula leaves something out. Help and documents print them.
func Differences() []string {
	return []string{
		"With 20 nodes, break-even is at a hit rate of 52.4 %, not 50.",
		"The buffer is ten times cheaper at best, not twelve: with 20 nodes and all hits.",
		"With one node and a hit rate of 75 %, the formula gives 180 MB/s over a link of 135 MB/s.",
		"The formula adds the two legs of a miss, line and local network, though they overlap.",
		"Neither text nor formula charges for the drain of writes.",
	}
}

// Paper returns the model of the published study of I/O burst buffers for hybrid
// clouds: closed formulas, with the hit rate as an input.
func Paper() *Model {
	return &Model{
		Name: "paper", Most: 100000, compute: paper, hits: "hit", hitRates: "0%..100%/25%", hitLabel: "hit rate",
		Settings: []Setting{
			{Name: "nodes", Unit: Count, Default: "1..20", Least: 1, Most: 1e6, Whole: true, Meaning: "compute nodes, each with its own I/O node"},
			{Name: "hit", Unit: Share, Default: "0%..100%/25%", Most: 1, Meaning: "hit rate of the buffer"},
			{Name: "line", Unit: Rate, Default: "135MB/s", Least: 1, Meaning: "most rate of the line to the remote store"},
			{Name: "network", Unit: Rate, Default: "135MB/s", Least: 1, Meaning: "rate of one I/O node in the local network"},
			{Name: "curve", Unit: Word, Default: "linear", Words: []string{"linear", "quadratic"}, Meaning: "how direct I/O grows with the nodes: linear or quadratic"},
			{Name: "full", Unit: Count, Default: "10", Least: 1, Most: 1e6, Whole: true, Meaning: "nodes that fill the line by direct I/O"},
			{Name: "first", Unit: Rate, Default: "13.5MB/s", Least: 1, Meaning: "direct I/O of one node, for the quadratic curve"},
			{Name: "size", Unit: Size, Default: "100GB", Least: 1, Meaning: "bytes to read or write"},
			{Name: "price", Unit: Dollars, Default: "0.405", Meaning: "of one host an hour"},
			{Name: "paid", Unit: Count, Default: "2", Least: 1, Most: 1000, Meaning: "hosts that are paid for each compute node with the buffer"},
		},
		Columns: []Column{
			{"direct_bytes_per_second", "direct", Rate, "throughput without the buffer"},
			{"buffered_bytes_per_second", "buffered", Rate, "throughput with the buffer"},
			{"network_bytes_per_second", "network", Rate, "most that the local network can give"},
			{"direct_cost", "direct cost", Dollars, "of all hosts without the buffer"},
			{"buffered_cost", "buffered cost", Dollars, "of all hosts with the buffer"},
			{"break_even", "break-even", Share, "least hit rate at which the buffer costs no more; none if there is no such rate"},
		},
	}
}

func paper(p Point, _ int64, _ func() error) ([]float64, error) {
	direct, local := direct(p), p["nodes"]*p["network"]
	buffered := buffered(p["hit"], local, p["line"])
	cost := func(rate, hosts float64) float64 { return p["size"] / rate / 3600 * p["price"] * hosts }
	return []float64{
		direct, buffered, local, cost(direct, p["nodes"]), cost(buffered, p["nodes"]*p["paid"]),
		breakEven(direct*p["paid"], local, p["line"]),
	}, nil
}

// direct is the throughput of all nodes without a buffer. The quadratic curve
// −Ax² + Bx + C goes through one node's rate and has its maximum, the line's rate, at
// B/2A nodes. Both curves stay at the line's rate beyond.
func direct(p Point) float64 {
	n, full := math.Min(p["nodes"], p["full"]), p["full"]
	if p["curve"] == 0 || full == 1 {
		return p["line"] * n / full
	}
	a := (p["line"] - p["first"]) / ((full - 1) * (full - 1))
	return p["line"] - a*(n-full)*(n-full)
}

func buffered(hit, local, line float64) float64 {
	return 1 / math.Max(hit/local, (1-hit)/line+(1-hit)/local)
}

// breakEven is the least hit rate at which the buffer has a throughput, NaN if none.
func breakEven(need, local, line float64) float64 {
	hit := math.Max(0, 1-1/need/(1/line+1/local))
	if buffered(hit, local, line) < need*(1-1e-12) {
		return math.NaN()
	}
	return hit
}
