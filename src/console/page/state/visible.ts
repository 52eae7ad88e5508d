/** Characters that are not seen, or that change the order of others: control and format characters, and all that browsers do not draw. */
export const UNSEEN: RegExp = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{DI}]/gu

/** A text with its unseen characters as `\u202e`. The ends of lines and tabs stay. */
export function visible(text: string): string {
  return text.replaceAll(UNSEEN, (found, at: number) =>
    found === '\n' || found === '\t' || (found === '\r' && text[at + 1] === '\n') ? found : escaped(found),
  )
}

function escaped(character: string): string {
  const code = (character.codePointAt(0) ?? 0).toString(16)
  return code.length > 4 ? `\\u{${code}}` : `\\u${code.padStart(4, '0')}`
}
