# Writes the second numbers of its lines as bars in a PNG file, in the octal escapes of printf.
{ bar[NR] = $2 }
function byte(v, i) {
  data = data sprintf("\\%03o", v); size++; crc = xor(crc, v)
  for (i = 0; i < 8; i++) crc = and(crc, 1) ? xor(rshift(crc, 1), 3988292384) : rshift(crc, 1)
}
function word(v) { byte(int(v / 16777216) % 256); byte(int(v / 65536) % 256); byte(int(v / 256) % 256); byte(v % 256) }
function begin(name, i) { data = ""; crc = 4294967295; size = -4; for (i = 1; i <= 4; i++) byte(index(ascii, substr(name, i, 1)) + 64) }
function done(chunk, bytes, sum) { chunk = data; bytes = size; sum = xor(crc, 4294967295); data = ""; word(bytes); printf "%s%s", data, chunk; data = ""; word(sum); printf "%s", data }
END {
  ascii = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"; width = 60; height = 40
  for (y = 0; y < height; y++) { raw[n++] = 0; for (x = 0; x < width; x++) raw[n++] = height - y <= 4 * bar[int(x * NR / width) + 1] ? 0 : 255 }
  printf "\\211PNG\\r\\n\\032\\n"
  begin("IHDR"); word(width); word(height); byte(8); byte(0); byte(0); byte(0); byte(0); done()
  begin("IDAT"); byte(120); byte(1); byte(1); byte(n % 256); byte(int(n / 256)); byte(255 - n % 256); byte(255 - int(n / 256))
  a = 1; b = 0
  for (i = 0; i < n; i++) { byte(raw[i]); a = (a + raw[i]) % 65521; b = (b + a) % 65521 }
  word(b * 65536 + a); done()
  begin("IEND"); done()
}
