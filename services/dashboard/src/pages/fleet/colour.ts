/**
 * Colours as numbers: OKLab for even steps, sRGB for the screen, and how people with other colour vision see them.
 *
 * Matrices: OKLab by Björn Ottosson (2020); dichromats by Machado, Oliveira and Fernandes (2009), severity 1.
 */

export type Lab = readonly [lightness: number, greenRed: number, blueYellow: number];
export type Rgb = readonly [red: number, green: number, blue: number];

const DEGREES = Math.PI / 180;

export type Vision = "usual" | "protan" | "deutan" | "tritan";

const SEEN_BY: Record<Vision, readonly number[]> = {
  usual: [1, 0, 0, 0, 1, 0, 0, 0, 1],
  protan: [0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998],
  deutan: [0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.01182, 0.04294, 0.968881],
  tritan: [1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.3039],
};

export const VISIONS = Object.keys(SEEN_BY) as Vision[];

const within = (value: number): number => Math.min(1, Math.max(0, value));

/** `#rrggbb` as linear light, 0 to 1. */
export function linear(hex: string): Rgb {
  const channel = (from: number): number => {
    const value = Number.parseInt(hex.slice(from, from + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  };
  return [channel(1), channel(3), channel(5)];
}

/** Linear light as `#rrggbb`; what no screen can show is clipped. */
export function hexOf(colour: Rgb): string {
  const channel = (value: number): string => {
    const light = within(value);
    const coded = light <= 0.0031308 ? 12.92 * light : 1.055 * light ** (1 / 2.4) - 0.055;
    return Math.round(255 * coded)
      .toString(16)
      .padStart(2, "0");
  };
  return `#${channel(colour[0])}${channel(colour[1])}${channel(colour[2])}`;
}

export function labOf([red, green, blue]: Rgb): Lab {
  const long = Math.cbrt(0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue);
  const middle = Math.cbrt(0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue);
  const short = Math.cbrt(0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue);
  return [
    0.2104542553 * long + 0.793617785 * middle - 0.0040720468 * short,
    1.9779984951 * long - 2.428592205 * middle + 0.4505937099 * short,
    0.0259040371 * long + 0.7827717662 * middle - 0.808675766 * short,
  ];
}

export function rgbOf([lightness, a, b]: Lab): Rgb {
  const long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const middle = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const short = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * long - 3.3077115913 * middle + 0.2309699292 * short,
    -1.2684380046 * long + 2.6097574011 * middle - 0.3413193965 * short,
    -0.0041960863 * long - 0.7034186147 * middle + 1.707614701 * short,
  ];
}

/** Lightness 0 to 1, chroma 0 to about 0.3, hue in degrees. */
export function lch(lightness: number, chroma: number, hueDegrees: number): string {
  const hue = hueDegrees * DEGREES;
  return hexOf(rgbOf([lightness, chroma * Math.cos(hue), chroma * Math.sin(hue)]));
}

/** share of `over`, the rest of `under`. */
export function mix(over: string, under: string, share: number): string {
  const [a, b] = [labOf(linear(over)), labOf(linear(under))];
  const part = (index: 0 | 1 | 2): number => a[index] * share + b[index] * (1 - share);
  return hexOf(rgbOf([part(0), part(1), part(2)]));
}

/** So many even steps through colours that are given as equally spaced stops. */
export function ramp(stops: readonly string[], steps: number): string[] {
  return Array.from({ length: steps }, (_, step) => {
    const along = (step / Math.max(1, steps - 1)) * (stops.length - 1);
    const from = Math.min(Math.floor(along), Math.max(0, stops.length - 2));
    return mix(stops[from + 1] ?? stops[from] ?? "#000000", stops[from] ?? "#000000", along - from);
  });
}

/** What somebody of that vision sees. */
export function seenBy(vision: Vision, hex: string): string {
  const [red, green, blue] = linear(hex);
  const row = (from: number): number => {
    const [r = 0, g = 0, b = 0] = SEEN_BY[vision].slice(from, from + 3);
    return r * red + g * green + b * blue;
  };
  return hexOf([row(0), row(3), row(6)]);
}

/** Distance in OKLab: about 0.02 can just be told apart side by side. */
export function distance(one: string, other: string): number {
  const [a, b] = [labOf(linear(one)), labOf(linear(other))];
  return Math.hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
}

/** WCAG 2 contrast ratio, 1 to 21. */
export function contrast(one: string, other: string): number {
  const luminance = (hex: string): number => {
    const [red, green, blue] = linear(hex);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const [a, b] = [luminance(one), luminance(other)];
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}
