// A scale of colours whose steps look equal: its lightness in OKLCH grows evenly, from where little happened to where much did.

const ENDS = {
  light: { lightness: [0.95, 0.3], chroma: [0.035, 0.19, 0.11], hue: [95, 40, 5] },
  dark: { lightness: [0.27, 0.95], chroma: [0.08, 0.2, 0.13], hue: [290, 370, 465] },
};
const made = new Map();

/** 256 colours as [red, green, blue]. */
export function scale(theme) {
  if (!made.has(theme)) {
    const { lightness, chroma, hue } = ENDS[theme];
    const steps = Array.from({ length: 256 }, (_, step) => step / 255);
    made.set(theme, steps.map((at) => rgb(lightness[0] + (lightness[1] - lightness[0]) * at, curve(chroma, at), curve(hue, at))));
  }
  return made.get(theme);
}

/** Through the first, the second and the third in the middle and at the ends. */
function curve([first, second, third], at) {
  const over = 2 * second - (first + third) / 2;
  return (1 - at) ** 2 * first + 2 * at * (1 - at) * over + at ** 2 * third;
}

/** The chroma gives way where sRGB has no such colour. https://bottosson.github.io/posts/oklab/ */
function rgb(lightness, chroma, hue) {
  const found = linear(lightness, chroma, (hue * Math.PI) / 180);
  if (chroma > 0 && found.some((part) => part < -0.0005 || part > 1.0005)) return rgb(lightness, Math.max(0, chroma - 0.004), hue);
  return found.map((part) => {
    const inside = Math.min(Math.max(part, 0), 1);
    return Math.round(255 * (inside <= 0.0031308 ? 12.92 * inside : 1.055 * inside ** (1 / 2.4) - 0.055));
  });
}

function linear(lightness, chroma, angle) {
  const [a, b] = [chroma * Math.cos(angle), chroma * Math.sin(angle)];
  const long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const short = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
    -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
    -0.0041960863 * long - 0.7034186147 * medium + 1.707614701 * short,
  ];
}
