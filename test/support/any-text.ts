import fc from 'fast-check'

/** Any character, most of them rare ones. The `binary` of fast-check is the same, after seconds of work on a table of them all. */
export const anyCharacter: fc.Arbitrary<string> = fc
  .oneof(
    fc.integer({ min: 0, max: 0x7f }),
    // Around the surrogates, which are no characters.
    fc.integer({ min: 0, max: 0xd7ff }),
    fc.integer({ min: 0xe000, max: 0x10ffff }),
  )
  .map((point) => String.fromCodePoint(point))
